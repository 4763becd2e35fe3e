//! The ports of a node that a run used, and what they should give.

use report::Cap;
use report::nccl::Run;

use super::Transferred;
use crate::verdict::caps::PCIE_PAYLOAD;
use crate::verdict::{PortSide, Side};

/// Ports that were used.
pub(super) struct Ports {
    used: Vec<PortSide>,
    /// Active ports that were not.
    pub(super) idle: Vec<String>,
}

impl Ports {
    /// By what NCCL says it uses, else by what ports transferred, else all that are active. None: the node has none whose rate is
    /// known.
    pub(super) fn used(run: &Run, side: &Side, transferred: Option<&Transferred>) -> Option<Ports> {
        let told: Vec<PortSide> =
            side.ports.iter().filter(|port| port.data_mbps.is_some()).cloned().collect();
        let most = transferred
            .and_then(|transferred| transferred.bytes.values().max())
            .copied()
            .unwrap_or(0);
        let named = |port: &PortSide| run.heard.ports.contains(&port.name.replace(" port ", ":"));
        let moved = |port: &PortSide| {
            let bytes =
                transferred.and_then(|transferred| transferred.bytes.get(&port.name)).copied();
            bytes.unwrap_or(0) > most / IDLE
        };
        let (used, idle): (Vec<PortSide>, Vec<PortSide>) = if told.iter().any(named) {
            told.into_iter().partition(named)
        } else if most > 0 {
            told.into_iter().partition(moved)
        } else {
            (told, Vec::new())
        };
        let idle = idle.into_iter().map(|port| port.name).collect();
        (!used.is_empty()).then_some(Ports { used, idle })
    }

    /// What their lines carry together.
    pub(super) fn rate_gbps(&self) -> f64 {
        self.used.iter().map(line).sum()
    }

    /// The same, where no card's slot is narrower than its lines.
    pub(super) fn should_give_gbps(&self) -> f64 {
        let cards = self.cards();
        cards
            .iter()
            .map(|card| slot(card).map_or(lines(card), |slot| slot.gbps.min(lines(card))))
            .sum()
    }

    /// What caps them, the lowest first.
    pub(super) fn caps(&self) -> Vec<Cap> {
        let all = Cap {
            what: self.name(),
            gbps: self.rate_gbps(),
            evidence: self
                .used
                .iter()
                .map(|port| port.rate.as_str())
                .collect::<Vec<_>>()
                .join(" + "),
        };
        let narrow = self.narrow_slots().into_iter().map(|(slot, _)| slot);
        let mut caps: Vec<Cap> = narrow.chain([all]).collect();
        caps.sort_by(|one, other| one.gbps.total_cmp(&other.gbps));
        caps
    }

    pub(super) fn name(&self) -> String {
        match self.used.as_slice() {
            [one] => one.name.clone(),
            [one, other] => format!("{} and {}", one.name, other.name),
            many => format!("{} ports", many.len()),
        }
    }

    /// How many.
    pub(super) fn used_count(&self) -> usize {
        self.used.len()
    }

    /// Slots that are narrower than their card's lines.
    pub(super) fn narrow_slots(&self) -> Vec<(Cap, f64)> {
        let cards = self.cards();
        let slots = cards.iter().filter_map(|card| Some((slot(card)?, lines(card))));
        slots.filter(|(slot, lines)| slot.gbps < *lines).collect()
    }

    /// Ports of one card share its slot.
    fn cards(&self) -> Vec<Vec<&PortSide>> {
        let mut cards: Vec<Vec<&PortSide>> = Vec::new();
        for port in &self.used {
            let device = |port: &PortSide| port.name.split(' ').next().map(str::to_owned);
            match cards.iter_mut().find(|card| device(card[0]) == device(port)) {
                Some(card) => card.push(port),
                None => cards.push(vec![port]),
            }
        }
        cards
    }
}

fn line(port: &PortSide) -> f64 {
    port.data_mbps.unwrap_or(0) as f64 / 1e3
}

fn lines(card: &[&PortSide]) -> f64 {
    card.iter().map(|port| line(port)).sum()
}

/// The narrowest PCIe link above a card.
fn slot(card: &[&PortSide]) -> Option<Cap> {
    let narrowest =
        card.first()?.hops.iter().min_by(|one, other| one.gbps.total_cmp(&other.gbps))?;
    Some(Cap {
        what: format!("{} ({})", narrowest.what, card.first()?.name.split(' ').next()?),
        gbps: narrowest.gbps * PCIE_PAYLOAD,
        evidence: format!(
            "{}; packets' headers leave about {:.0} %",
            narrowest.evidence,
            PCIE_PAYLOAD * 100.0
        ),
    })
}

/// A port that transferred less than this part of the busiest one was not used.
const IDLE: u64 = 50;
