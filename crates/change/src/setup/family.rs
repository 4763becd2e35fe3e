//! The distribution family: packages have other names in each.

use node::{Reading, Tree};
use serde::Serialize;

use super::Refusal;
use crate::PackageManager;

/// A family of distributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Debian, Ubuntu and derivatives.
    Debian,
    /// Red Hat Enterprise Linux, Fedora, CentOS, Rocky, Alma and the like.
    RedHat,
}

impl Family {
    /// From os-release: `ID` first, then `ID_LIKE`.
    pub(super) fn of(tree: &Tree) -> Result<Family, Refusal> {
        let texts = ["/etc/os-release", "/usr/lib/os-release"].map(|path| tree.text(path));
        let Some(text) = texts.into_iter().find_map(Reading::into_value) else {
            return Err(Refusal::UnknownSystem(format!(
                "there is no /etc/os-release to identify this system; {KNOWN}"
            )));
        };
        let (id, like) = (value(&text, "ID"), value(&text, "ID_LIKE"));
        let known = std::iter::once(id).chain(like.split_whitespace()).find_map(named);
        known.ok_or_else(|| {
            Refusal::UnknownSystem(format!(
                "this system is {:?}, which is not supported; {KNOWN}. `wirelane tune plan` works without \
                 packages",
                if id.is_empty() { "unnamed" } else { id }
            ))
        })
    }

    /// Its package manager.
    pub(super) fn package_manager(self) -> PackageManager {
        match self {
            Family::Debian => PackageManager::Apt,
            Family::RedHat => PackageManager::Dnf,
        }
    }
}

fn named(id: &str) -> Option<Family> {
    match id {
        "debian" | "ubuntu" => Some(Family::Debian),
        "rhel" | "fedora" | "centos" => Some(Family::RedHat),
        _ => None,
    }
}

/// A setting of os-release, without its quotes.
fn value<'t>(text: &'t str, name: &str) -> &'t str {
    let of_it = |line: &'t str| line.trim().strip_prefix(name)?.strip_prefix('=');
    text.lines().find_map(of_it).unwrap_or_default().trim_matches(['"', '\''])
}

const KNOWN: &str = "supported are Debian's family (debian, ubuntu and derivatives) and Red Hat's (rhel, fedora, \
                     centos, rocky, almalinux, ol)";

#[cfg(test)]
mod tests {
    use super::*;

    fn family(os_release: &str) -> Result<Family, Refusal> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("etc")).expect("a folder");
        std::fs::write(folder.path().join("etc/os-release"), os_release).expect("a file");
        Family::of(&Tree::at(folder.path()).expect("a tree"))
    }

    #[test]
    fn systems_belong_to_the_family_that_they_name() {
        let debian = Ok(Family::Debian);
        let red_hat = Ok(Family::RedHat);
        assert_eq!(family("PRETTY_NAME=\"Debian\"\nID=debian\nVERSION_ID=\"12\"\n"), debian);
        assert_eq!(family("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"), debian);
        assert_eq!(family("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"), red_hat);
        assert_eq!(family("ID=fedora\n"), red_hat);
    }

    #[test]
    fn another_family_is_refused_with_what_is_known() {
        let refusal = family("ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n").expect_err("no");
        let text = refusal.to_string();
        assert!(text.contains("\"opensuse-leap\"") && text.contains("Red Hat's"), "{text}");
    }
}
