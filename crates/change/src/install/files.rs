//! The files to install: description, path, and text, which is in `deploy/`.

use super::Part;

/// A file to be placed.
pub(super) struct File {
    part: Part,
    pub(super) what: &'static str,
    pub(super) path: &'static str,
    pub(super) text: &'static str,
}

pub(super) fn of(part: Part) -> impl Iterator<Item = &'static File> {
    FILES.iter().filter(move |file| file.part == part)
}

/// The path of the program in the units.
pub(super) const PROGRAM: &str = "/usr/bin/wirelane";

const FILES: &[File] = &[
    File {
        part: Part::Exporter,
        what: "the exporter as a service",
        path: "/etc/systemd/system/wirelane-exporter.service",
        text: include_str!("../../deploy/systemd/wirelane-exporter.service"),
    },
    File {
        part: Part::Exporter,
        what: "its flags, for you to edit",
        path: "/etc/default/wirelane-exporter",
        text: include_str!("../../deploy/systemd/wirelane-exporter.default"),
    },
    File {
        part: Part::Serve,
        what: "the store as a service",
        path: "/etc/systemd/system/wirelane.service",
        text: include_str!("../../deploy/systemd/wirelane.service"),
    },
    File {
        part: Part::Serve,
        what: "its flags, for you to edit",
        path: "/etc/default/wirelane",
        text: include_str!("../../deploy/systemd/wirelane.default"),
    },
    File {
        part: Part::Prometheus,
        what: "alerts on ports, links, GPUs, the transport and the store",
        path: "/etc/prometheus/rules/wirelane.rules.yml",
        text: include_str!("../../deploy/prometheus/rules/wirelane.rules.yml"),
    },
    File {
        part: Part::Prometheus,
        what: "an example of scrape jobs, to copy from",
        path: "/etc/prometheus/wirelane-example.yml",
        text: include_str!("../../deploy/prometheus/prometheus.yml"),
    },
    File {
        part: Part::Grafana,
        what: "the location of the dashboards, for Grafana",
        path: "/etc/grafana/provisioning/dashboards/wirelane.yaml",
        text: include_str!("../../deploy/grafana/provisioning.yaml"),
    },
    File {
        part: Part::Grafana,
        what: "GPUs, CPUs and the fabric of each machine",
        path: "/var/lib/grafana/dashboards/wirelane/cluster.json",
        text: include_str!("../../deploy/grafana/cluster.json"),
    },
    File {
        part: Part::Grafana,
        what: "links, lanes and their latency",
        path: "/var/lib/grafana/dashboards/wirelane/transport.json",
        text: include_str!("../../deploy/grafana/transport.json"),
    },
    File {
        part: Part::Grafana,
        what: "the store and its disk",
        path: "/var/lib/grafana/dashboards/wirelane/store.json",
        text: include_str!("../../deploy/grafana/store.json"),
    },
];
