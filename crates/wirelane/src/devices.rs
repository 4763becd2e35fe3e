//! `wirelane devices`: the RDMA devices as libibverbs sees them.

use std::fmt::Write;

use clap::Args;
use fabric::verbs::{Device, DeviceFacts, GidType, Port};
use serde::Serialize;

use crate::cli::Global;
use crate::config::Settings;
use crate::exit::{Exit, Failure};
use crate::rdma::{ChoiceReport, DeviceReport, Rdma, RdmaReport, chosen};
use crate::{logging, output};

#[derive(Debug, Args)]
pub(crate) struct DevicesArgs {
    /// Print JSON: all that libibverbs tells of devices, ports and GIDs, in C's names
    #[arg(long)]
    json: bool,
}

/// Having no device is an answer, not a failure: it is said with its reason, and the exit code is 0.
pub(crate) fn run(global: &Global, args: &DevicesArgs) -> Result<Exit, Failure> {
    let settings = Settings::load(global)?.settings;
    logging::start(global, &settings);
    let rdma = Rdma::look_with(global, &settings);
    let choice = rdma.choice(&settings);
    if args.json {
        let choice = choice.into();
        output::json(&Report { rdma: rdma.report(), choice, devices: rdma.device_reports() })?;
    } else {
        let devices: String = rdma.devices.iter().map(text).collect();
        output::answer(&devices)?;
        if rdma.off.is_none() {
            output::answer(&format!("chosen: {}\n", chosen(&choice)))?;
        }
        if let Some(off) = &rdma.off {
            output::note(&format!("RDMA is off: {} — {}", off.reason, off.remedy));
        }
    }
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Report<'r> {
    rdma: RdmaReport<'r>,
    choice: ChoiceReport,
    devices: Vec<DeviceReport<'r>>,
}

fn text(device: &Device) -> String {
    let mut text = String::new();
    let _ = match &device.facts {
        Ok(facts) => write_facts(&mut text, device, facts),
        Err(error) => writeln!(text, "{}  {}  {error}", device.name, device.transport),
    };
    text
}

fn write_facts(text: &mut String, device: &Device, facts: &DeviceFacts) -> std::fmt::Result {
    writeln!(
        text,
        "{}  {}  guid {}  firmware {}",
        device.name, device.transport, device.node_guid, facts.fw_ver
    )?;
    for port in &facts.ports {
        write_port(text, port)?;
    }
    Ok(())
}

fn write_port(text: &mut String, port: &Port) -> std::fmt::Result {
    write!(
        text,
        "  port {}  {}  {}  MTU {} of {}",
        port.port,
        port.state.name(),
        port.link_layer.name(),
        port.active_mtu,
        port.max_mtu
    )?;
    if let (Some(width), Some(speed)) = (port.active_width, port.active_speed_gbps) {
        write!(text, "  {} Gb/s ({width}X)", speed * f64::from(width))?;
    }
    if port.lid != 0 {
        write!(text, "  LID {:#x}", port.lid)?;
    }
    text.push('\n');
    for gid in &port.gids {
        write!(text, "    GID {}  {}", gid.index, gid.gid)?;
        write!(text, "  {}", gid.kind.map_or("type unknown", GidType::name))?;
        if let Some(netdev) = &gid.netdev {
            write!(text, "  {netdev}")?;
        }
        text.push('\n');
    }
    Ok(())
}
