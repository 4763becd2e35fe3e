//! The name, container and pod of a process.

use std::fs::File;
use std::io::Read;

/// The facts of a process; empty if it ended or belongs to another user.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) command: Option<String>,
    pub(super) workload: Workload,
}

/// The container and pod that a process is in.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) pod: Option<String>,
    pub(super) container: Option<String>,
}

/// Reads a running process. It does not use a tree, since snapshots store only the numbers of resources.
pub(super) fn read(pid: u32) -> Process {
    let command = text(&format!("/proc/{pid}/comm"));
    let command = command.map(|name| name.chars().filter(|letter| !letter.is_control()).collect());
    let cgroup = text(&format!("/proc/{pid}/cgroup"));
    Process {
        command: command.filter(|name: &String| !name.is_empty()),
        workload: cgroup.as_deref().map(workload).unwrap_or_default(),
    }
}

fn text(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}

/// Parses `/proc/PID/cgroup`: version 1 has a line for each controller, not all of which name the container.
pub(super) fn workload(cgroup: &str) -> Workload {
    let paths = cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut found = Workload::default();
    for path in paths {
        let workload = parse_path(path);
        if workload.pod.is_some() {
            return workload;
        }
        if found.container.is_none() {
            found = workload;
        }
    }
    found
}

/// The innermost pod and container of the path: those of a cluster in containers are nested.
fn parse_path(path: &str) -> Workload {
    let last = |find: fn(&str) -> Option<String>| path.rsplit('/').find_map(find);
    Workload { pod: last(pod), container: last(container) }
}

/// `pod8f5c…` of the driver cgroupfs, `kubepods-burstable-pod8f5c_….slice` of systemd, which allows no dash in it. With
/// systemd and containerd before 1.4, pod and container are one name.
fn pod(segment: &str) -> Option<String> {
    let name = segment.split(':').next()?;
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let uid = match name.strip_prefix("pod") {
        Some(uid) => uid,
        None => name.strip_prefix("kubepods")?.split_once("-pod")?.1,
    };
    let uid = uid.replace('_', "-");
    // The UID of a static pod is a hash without dashes.
    let length = uid.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_uid = length == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uid.then_some(uid)
}

/// `cri-containerd-ID.scope`, `crio-ID.scope`, `docker-ID.scope`, `libpod-ID.scope`, or the id alone.
fn container(segment: &str) -> Option<String> {
    // The monitor process of a container.
    if segment.contains("conmon") {
        return None;
    }
    let name = segment.strip_suffix(".scope").unwrap_or(segment);
    let id = name.rsplit(['-', ':']).next()?;
    let is_id = id.len() == CONTAINER_ID_BYTES && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id.to_owned())
}

const CONTAINER_ID_BYTES: usize = 64;
const MAX_FILE_BYTES: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const CONTAINER: &str = "7be92808767a667f35c8505cbf40d14e931ef6db5b0210329cf193b15ba9d605";
    const UID: &str = "8f5c4a0e-1d0b-4f6e-9f0e-0c5b0d2a7e11";

    fn found(cgroup: &str) -> (Option<String>, Option<String>) {
        let cgroup = cgroup.replace("UNDERSCORED", &UID.replace('-', "_"));
        let workload = workload(&cgroup.replace("CONTAINER", CONTAINER).replace("UID", UID));
        (workload.pod, workload.container)
    }

    #[test]
    fn pods_of_every_runtime_and_driver() {
        let in_pod = (Some(UID.to_owned()), Some(CONTAINER.to_owned()));
        for cgroup in [
            // containerd and systemd, version 2.
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUNDERSCORED.slice/cri-containerd-CONTAINER.scope\n",
            // The same of a pod with guaranteed resources.
            "0::/kubepods.slice/kubepods-podUNDERSCORED.slice/cri-containerd-CONTAINER.scope\n",
            // cri-o, with crun's folder inside.
            "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podUNDERSCORED.slice/crio-CONTAINER.scope/container\n",
            // cgroupfs, version 1: some controllers do not name it.
            "13:rdma:/\n12:cpuset:/kubepods/burstable/podUID/CONTAINER\n1:name=systemd:/kubepods/burstable/podUID/CONTAINER\n",
            // Docker through its shim.
            "11:memory:/kubepods.slice/kubepods-podUNDERSCORED.slice/docker-CONTAINER.scope\n",
            // An old containerd: one name for all of it.
            "2:cpu:/system.slice/containerd.service/kubepods-burstable-podUNDERSCORED.slice:cri-containerd:CONTAINER\n",
            // Seen from inside another cgroup namespace.
            "0::/../../kubepods-burstable-podUNDERSCORED.slice/cri-containerd-CONTAINER.scope\n",
            // A cluster whose nodes are containers.
            "0::/docker/0000000000000000000000000000000000000000000000000000000000000000/kubelet/kubepods/podUID/CONTAINER\n",
            // systemd inside the container.
            "0::/kubepods.slice/kubepods-podUNDERSCORED.slice/crio-CONTAINER.scope/init.scope\n",
        ] {
            assert_eq!(found(cgroup), in_pod, "{cgroup}");
        }
    }

    #[test]
    fn containers_without_a_pod() {
        for cgroup in [
            "0::/system.slice/docker-CONTAINER.scope\n",
            "4:devices:/docker/CONTAINER\n0::/\n",
            "0::/machine.slice/libpod-CONTAINER.scope/container\n",
        ] {
            assert_eq!(found(cgroup), (None, Some(CONTAINER.to_owned())), "{cgroup}");
        }
    }

    #[test]
    fn the_uid_of_a_static_pod_is_a_hash() {
        let hash = "3b2a5f0c8d1e4796a0b1c2d3e4f50617";
        let cgroup = format!("0::/kubepods/burstable/pod{hash}/{CONTAINER}\n");
        assert_eq!(workload(&cgroup).pod.as_deref(), Some(hash));
    }

    #[test]
    fn other_cgroups_have_no_container() {
        for cgroup in [
            "",
            "0::/\n",
            "0::/user.slice/user-1000.slice/session-4.scope\n",
            "0::/system.slice/podman.service\n",
            "0::/machine.slice/libpod-conmon-CONTAINER.scope\n",
            "0::/kubepods.slice/kubepods-podxyz.slice\n",
            "no colons",
        ] {
            assert_eq!(found(cgroup), (None, None), "{cgroup}");
        }
    }

    #[test]
    fn this_process_has_a_name() {
        assert!(read(std::process::id()).command.is_some());
        assert_eq!(read(u32::MAX).command, None);
    }
}
