//! Names that a cluster accepts, checked once.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A DNS label (RFC 1123): `wirelane-job`, at most 63 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

/// An image: `registry.example/team/wirelane:0.1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image(String);

/// An extended resource: `openshift.io/wirelane_rdma`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    prefix: String,
    name: String,
}

/// A network for addresses of pods: `192.168.100.0/24`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet(String);

impl Name {
    /// This name with a suffix, truncated to the maximum length.
    pub(super) fn with_suffix(&self, suffix: &str) -> String {
        let base_length = 63 - suffix.len() - 1;
        let base: String = self.0.chars().take(base_length).collect();
        format!("{}-{suffix}", base.trim_end_matches('-'))
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_label(text) {
            return Ok(Name(text.to_owned()));
        }
        Err("a name has lower-case letters, digits and dashes, does not begin or end with a dash, and has \
             at most 63 characters (RFC 1123)"
            .to_owned())
    }
}

impl FromStr for Image {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
        let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        let is_image = text.len() <= 512
            && text.bytes().all(good)
            && edge(text.bytes().next())
            && edge(text.bytes().next_back())
            && !text.contains("//");
        if !is_image {
            return Err(
                "an image has the form [HOST/]PATH[:TAG][@DIGEST], without spaces".to_owned()
            );
        }
        Ok(Image(text.to_owned()))
    }
}

impl Resource {
    /// The name without its prefix, for the SR-IOV operator, which adds its own.
    pub fn for_operator(&self, suffix: &str) -> Result<String, String> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if self.name.bytes().all(good) {
            return Ok(format!("{}{suffix}", self.name));
        }
        Err(format!(
            "resource {self}: the SR-IOV operator accepts only letters, digits and `_` in a resource's name"
        ))
    }
}

impl FromStr for Resource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (prefix, name) = text.split_once('/').unwrap_or((DEFAULT_PREFIX, text));
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        let is_name = name.len() <= 63
            && name.bytes().all(good)
            && edge(name.bytes().next())
            && edge(name.bytes().next_back());
        let is_prefix = prefix.len() <= 253 && prefix.split('.').all(is_label);
        if !is_name || !is_prefix {
            return Err(
                "a resource has the form [PREFIX/]NAME: openshift.io/wirelane_rdma".to_owned()
            );
        }
        Ok(Resource { prefix: prefix.to_owned(), name: name.to_owned() })
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once('/').and_then(|(address, prefix)| {
            let address: IpAddr = address.parse().ok()?;
            let prefix: u8 = prefix.parse().ok()?;
            (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some(())
        });
        match parsed {
            Some(()) => Ok(Subnet(text.to_owned())),
            None => Err("a network has the form ADDRESS/PREFIX: 192.168.100.0/24".to_owned()),
        }
    }
}

fn is_label(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edges = !text.starts_with('-') && !text.ends_with('-');
    !text.is_empty() && text.len() <= 63 && text.bytes().all(good) && edges
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.prefix, self.name)
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The SR-IOV operator's prefix.
const DEFAULT_PREFIX: &str = "openshift.io";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels() {
        for text in ["a", "wirelane-job", "0a", &"a".repeat(63)] {
            assert!(text.parse::<Name>().is_ok(), "{text}");
        }
        for text in ["", "A", "-a", "a-", "a_b", "a.b", "a b", "é", &"a".repeat(64)] {
            assert!(text.parse::<Name>().is_err(), "{text}");
        }
        let long: Name = "a".repeat(63).parse().expect("a name");
        assert_eq!(long.with_suffix("server").len(), 63);
    }

    #[test]
    fn resources_have_a_prefix_or_get_the_operators() {
        let resource = |text: &str| text.parse::<Resource>();
        assert_eq!(resource("rdma").expect("one").to_string(), "openshift.io/rdma");
        assert_eq!(resource("rdma/hca_shared").expect("one").to_string(), "rdma/hca_shared");
        for text in ["", "/a", "a/", "a/b/c", "A/b", "a b", "-a"] {
            assert!(resource(text).is_err(), "{text}");
        }
        assert!(resource("a-b").expect("one").for_operator("").is_err());
    }

    #[test]
    fn images_and_networks() {
        assert!("registry.example/team/wirelane:0.1@sha256:00".parse::<Image>().is_ok());
        for text in ["", "a b", "a\n", "/a", "a//b", "$(x)"] {
            assert!(text.parse::<Image>().is_err(), "{text}");
        }
        assert!("10.0.0.0/16".parse::<Subnet>().is_ok() && "fd00::/64".parse::<Subnet>().is_ok());
        for text in ["10.0.0.0", "10.0.0.0/33", "a/8", "10.0.0.0/8/8"] {
            assert!(text.parse::<Subnet>().is_err(), "{text}");
        }
    }
}
