//! `serve --user`: from root to a user without privileges, before the first thread starts and the first file is read. So
//! what can be read at the start can be read again later, and nothing that only root may read is in memory.

use std::fs::File;
use std::io::{self, Read};
use std::str::FromStr;

use rustix::process::{DumpableBehavior, Gid, Resource, Rlimit, Uid, getegid, geteuid};
use rustix::process::{set_dumpable_behavior, setrlimit};
use rustix::thread::{
    capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::output::Failure;

/// A user as named by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UserArg {
    /// A name in /etc/passwd.
    Name(String),
    /// A user and a group by number, with no other groups.
    Ids { uid: u32, gid: u32 },
}

impl FromStr for UserArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "write a name of /etc/passwd, or UID:GID in numbers".to_owned();
        if let Some((uid, gid)) = text.split_once(':') {
            let number = |text: &str| text.parse().ok().filter(|id| *id != u32::MAX);
            let (Some(uid), Some(gid)) = (number(uid), number(gid)) else { return Err(form()) };
            return Ok(UserArg::Ids { uid, gid });
        }
        let is_name = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
        let has_letter = text.bytes().any(|byte| !byte.is_ascii_digit());
        match is_name && has_letter && text.len() <= MAX_NAME_BYTES {
            true => Ok(UserArg::Name(text.to_owned())),
            false => Err(form()),
        }
    }
}

/// What the process becomes.
#[derive(Debug, PartialEq, Eq)]
struct User {
    name: String,
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl User {
    fn look_up(arg: &UserArg) -> Result<User, Failure> {
        let (name, found) = match arg {
            UserArg::Ids { uid, gid } => {
                let (uid, gid) = (Uid::from_raw(*uid), Gid::from_raw(*gid));
                return Ok(User { name: uid.to_string(), uid, gid, groups: vec![gid] });
            }
            UserArg::Name(name) => (name, find_user(&read("/etc/passwd")?, name)),
        };
        let Some((uid, gid)) = found else {
            let text = format!(
                "--user {name}: there is no such user in /etc/passwd: create it with `useradd --system {name}`, or \
                 write UID:GID in numbers if it is known elsewhere"
            );
            return Err(Failure::usage(text));
        };
        Ok(User {
            name: name.clone(),
            uid,
            gid,
            groups: find_groups(&read("/etc/group")?, name, gid),
        })
    }
}

/// Becomes the user. The process must have a single thread: Linux changes the user of one thread only.
pub(super) fn become_user(arg: &UserArg) -> Result<(), Failure> {
    let user = User::look_up(arg)?;
    let name = &user.name;
    if user.uid.is_root() {
        return Err(Failure::usage(format!(
            "--user {name}: this is root, which keeps every privilege: name another user, or leave --user out"
        )));
    }
    if geteuid() == user.uid {
        return check_current(&user);
    }
    if !geteuid().is_root() {
        return Err(Failure::failed(format!(
            "--user {name}: only root can become another user: start it as root, or as {name} without --user"
        )));
    }
    // Root may lock any amount of memory, this user what the limit allows. If raising it fails, registering says so.
    let unlimited = Rlimit { current: None, maximum: None };
    let _ = setrlimit(Resource::Memlock, unlimited);
    change(&user).map_err(|error| Failure::failed(format!("become user {name}: {error}")))
}

/// The process is of this user already: whoever started it has chosen the rest.
fn check_current(user: &User) -> Result<(), Failure> {
    let differs = |what: &str| {
        Err(Failure::failed(format!(
            "--user {}: it was started as this user, but with {what}: start it without, or as root",
            user.name
        )))
    };
    if getegid() != user.gid {
        return differs(&format!("group {}", getegid()));
    }
    match capabilities(None).is_ok_and(|sets| sets.permitted.is_empty()) {
        true => Ok(()),
        false => differs("capabilities"),
    }
}

/// The groups first: the user may not change them.
fn change(user: &User) -> io::Result<()> {
    set_thread_groups(&user.groups)?;
    set_thread_res_gid(user.gid, user.gid, user.gid)?;
    // With the last user id that was root's the kernel clears all capabilities.
    set_thread_res_uid(user.uid, user.uid, user.uid)?;
    set_no_new_privs(true)?;
    // A process that changed its user cannot read its own files in /proc, unless it says that it has no secrets of the
    // user before: this one has read nothing yet.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    match capabilities(None)?.permitted.is_empty() {
        true => Ok(()),
        false => Err(io::Error::other(
            "the kernel let it keep capabilities (securebits of its parent): start it by another program",
        )),
    }
}

/// The user and group of a name, from the text of /etc/passwd.
fn find_user(passwd: &str, name: &str) -> Option<(Uid, Gid)> {
    let mut fields = passwd.lines().map(|line| line.split(':'));
    let mut fields = fields.find_map(|mut fields| (fields.next()? == name).then_some(fields))?;
    let mut number = |skip| fields.nth(skip)?.parse().ok().filter(|id| *id != u32::MAX);
    let (uid, gid) = (number(1)?, number(0)?);
    Some((Uid::from_raw(uid), Gid::from_raw(gid)))
}

/// The groups of a user: its own, and those of /etc/group that name it.
fn find_groups(group: &str, name: &str, own: Gid) -> Vec<Gid> {
    let listed = group.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        let id: u32 = fields.next()?.parse().ok().filter(|id| *id != u32::MAX)?;
        let is_member = fields.next()?.split(',').any(|member| member.trim() == name);
        is_member.then(|| Gid::from_raw(id))
    });
    let mut groups: Vec<Gid> = [own].into_iter().chain(listed).collect();
    groups.sort_by_key(|gid| gid.as_raw());
    groups.dedup();
    groups
}

fn read(path: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
    read.map_err(|error| Failure::failed(format!("read {path}: {error}")))?;
    Ok(text)
}

/// Of /etc/passwd or /etc/group, both written by root.
const MAX_BYTES: u64 = 16 << 20;
/// As `useradd` of most systems allows at most.
const MAX_NAME_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_names_or_two_numbers() {
        assert_eq!("kv-store".parse(), Ok(UserArg::Name("kv-store".to_owned())));
        assert_eq!("998:997".parse(), Ok(UserArg::Ids { uid: 998, gid: 997 }));
        for wrong in ["", "998", "998:", ":997", "kv:kv", "4294967295:1", "a b", "../x"] {
            assert!(wrong.parse::<UserArg>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_is_found_with_all_its_groups() {
        let passwd =
            "root:x:0:0::/root:/bin/sh\nkv2:x:5:5::/:/x\nkv:x:998:997:a store:/:/bin/false\n";
        let group = "rdma:x:120:ops,kv\nvideo:x:44:kv2\nrender:x:105:kv\nkv:x:997:\nbroken\n";
        let (uid, gid) = find_user(passwd, "kv").unwrap();
        assert_eq!((uid.as_raw(), gid.as_raw()), (998, 997));
        let groups: Vec<u32> =
            find_groups(group, "kv", gid).iter().map(|gid| gid.as_raw()).collect();
        assert_eq!(groups, [105, 120, 997]);
        assert_eq!(find_user(passwd, "ops"), None);
        assert_eq!(find_user("kv:x:4294967295:1::/:", "kv"), None, "no user has this number");
    }
}
