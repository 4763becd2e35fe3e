//! The matrix as an SVG image: NUMA nodes side by side, in each the host bridges, in those GPUs on the left and
//! NICs on the right, and a line from each GPU to its NIC.

use std::collections::BTreeMap;
use std::fmt::Write;

use node::Distance;

use super::matrix::{Matrix, Slot};
use super::text::pcie;

/// Draws the image.
pub(super) fn draw(matrix: &Matrix) -> String {
    let page = Page::lay_out(matrix);
    let mut svg = String::new();
    let (width, height) = (page.width, page.height);
    let _ = writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">"#
    );
    svg.push_str(STYLE);
    let _ = writeln!(svg, r#"<rect class="page" width="{width}" height="{height}"/>"#);
    let host = matrix.host.as_deref().unwrap_or("this machine");
    label(&mut svg, "title", MARGIN, 34, &format!("GPUs and RDMA devices of {host}"));
    for frame in &page.frames {
        frame.draw(&mut svg);
    }
    lines(&mut svg, matrix, &page);
    for tile in page.gpus.iter().chain(&page.nics) {
        tile.draw(&mut svg);
    }
    legend(&mut svg, matrix, height);
    svg.push_str("</svg>\n");
    svg
}

/// The layout.
struct Page {
    width: u32,
    height: u32,
    frames: Vec<Frame>,
    gpus: Vec<Tile>,
    nics: Vec<Tile>,
}

/// A named box around others.
struct Frame {
    class: &'static str,
    at: (u32, u32),
    size: (u32, u32),
    name: String,
}

/// A GPU or a NIC, in two lines.
struct Tile {
    class: &'static str,
    at: (u32, u32),
    first: String,
    second: String,
}

/// The devices below a host bridge, as indices of the lists.
#[derive(Default)]
struct BridgeDevices {
    gpus: Vec<usize>,
    nics: Vec<usize>,
}

impl Page {
    fn lay_out(matrix: &Matrix) -> Self {
        let mut gpus: Vec<Tile> = matrix
            .gpus
            .iter()
            .map(|gpu| {
                let model = gpu.model.clone().unwrap_or_default();
                Tile::new("gpu", format!("GPU {}  {model}", gpu.index), &gpu.slot, String::new())
            })
            .collect();
        let mut nics: Vec<Tile> = matrix
            .nics
            .iter()
            .map(|nic| {
                let rate = nic.rate_gbps.map(|gbps| format!("{gbps} Gb/s")).unwrap_or_default();
                let (class, rate) =
                    if nic.active { ("nic", rate) } else { ("down", "down".to_owned()) };
                Tile::new(
                    class,
                    format!("{}  {}", nic.device, nic.model.as_deref().unwrap_or_default()),
                    &nic.slot,
                    rate,
                )
            })
            .collect();
        let mut frames = Vec::new();
        let (mut x, mut lowest) = (MARGIN, 0);
        for (numa, bridges) in groups(matrix) {
            let mut y = TOP + NAME;
            for (bridge, below) in &bridges {
                let rows = below.gpus.len().max(below.nics.len()) as u32;
                let size = (BRIDGE_WIDTH, NAME + rows * (TILE.1 + GAP));
                frames.push(Frame {
                    class: "bridge",
                    at: (x + GAP, y),
                    size,
                    name: bridge.clone(),
                });
                place(&mut gpus, &below.gpus, x + 2 * GAP, y + NAME);
                place(&mut nics, &below.nics, x + GAP + BRIDGE_WIDTH - GAP - TILE.0, y + NAME);
                y += size.1 + GAP;
            }
            let name = node_name(matrix, numa);
            frames.insert(
                0,
                Frame { class: "numa", at: (x, TOP), size: (NODE_WIDTH, y - TOP), name },
            );
            lowest = lowest.max(y);
            x += NODE_WIDTH + GAP;
        }
        Page {
            width: (x - GAP + MARGIN).max(MIN_WIDTH),
            height: lowest.max(TOP) + LEGEND_HEIGHT,
            frames,
            gpus,
            nics,
        }
    }
}

/// The devices by NUMA node and host bridge; unknown nodes last.
fn groups(matrix: &Matrix) -> BTreeMap<u32, BTreeMap<String, BridgeDevices>> {
    let mut groups: BTreeMap<u32, BTreeMap<String, BridgeDevices>> = BTreeMap::new();
    let mut below = |slot: &Slot, put: &dyn Fn(&mut BridgeDevices)| {
        let bridge = slot.host_bridge.clone().unwrap_or_else(|| "host bridge unknown".to_owned());
        let numa = slot.numa_node.unwrap_or(u32::MAX);
        put(groups.entry(numa).or_default().entry(bridge).or_default());
    };
    for (at, gpu) in matrix.gpus.iter().enumerate() {
        below(&gpu.slot, &|below| below.gpus.push(at));
    }
    for (at, nic) in matrix.nics.iter().enumerate() {
        below(&nic.slot, &|below| below.nics.push(at));
    }
    groups
}

fn node_name(matrix: &Matrix, numa: u32) -> String {
    match matrix.numa_nodes.get(&numa) {
        Some(cpus) => format!("NUMA {numa} · CPUs {cpus}"),
        None if numa == u32::MAX => "NUMA node unknown".to_owned(),
        None => format!("NUMA {numa}"),
    }
}

fn place(tiles: &mut [Tile], which: &[usize], x: u32, y: u32) {
    for (row, at) in (0..).zip(which) {
        tiles[*at].at = (x, y + row * (TILE.1 + GAP));
    }
}

/// A curve from each GPU to its NIC, coloured by distance.
fn lines(svg: &mut String, matrix: &Matrix, page: &Page) {
    for (gpu, tile) in matrix.gpus.iter().zip(&page.gpus) {
        let Some((nic, distance)) = matrix.nic_of(gpu.index) else { continue };
        let from = (tile.at.0 + TILE.0, tile.at.1 + TILE.1 / 2);
        let to = (page.nics[nic].at.0, page.nics[nic].at.1 + TILE.1 / 2);
        let middle = ((from.0 + to.0) / 2, (from.1 + to.1) / 2);
        let _ = writeln!(
            svg,
            r#"<path class="line" stroke="{}" d="M{} {} C{} {} {} {} {} {}"/>"#,
            colour(distance),
            from.0,
            from.1,
            middle.0,
            from.1,
            middle.0,
            to.1,
            to.0,
            to.1
        );
        label(svg, "distance", from.0 + 24, from.1 - 6, distance.name());
    }
}

/// The colours that are used.
fn legend(svg: &mut String, matrix: &Matrix, height: u32) {
    let kinds = [
        (Distance::OneSwitch, "one PCIe switch"),
        (Distance::Switches, "several switches"),
        (Distance::HostBridge, "host bridge"),
        (Distance::NumaNode, "same NUMA node"),
        (Distance::System, "between nodes"),
    ];
    let y = height - LEGEND_HEIGHT / 2;
    let drawn = kinds.into_iter().filter(|(distance, _)| {
        matrix.assignment.iter().any(|assigned| assigned.distance == *distance)
    });
    for (column, (distance, words)) in (0..).zip(drawn) {
        let x = MARGIN + column * 190;
        let stroke = colour(distance);
        let _ = writeln!(svg, r#"<path class="line" stroke="{stroke}" d="M{x} {y} h24"/>"#);
        label(svg, "small", x + 32, y + 4, &format!("{}  {words}", distance.name()));
    }
}

impl Frame {
    fn draw(&self, svg: &mut String) {
        let ((x, y), (width, height)) = (self.at, self.size);
        let class = self.class;
        let _ = writeln!(
            svg,
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>"#
        );
        label(svg, "name", x + GAP, y + 20, &self.name);
    }
}

impl Tile {
    fn new(class: &'static str, first: String, slot: &Slot, link: String) -> Self {
        let words = [slot.pci.to_string(), link, pcie(slot)];
        let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
        Tile { class, at: (0, 0), first, second: words.join(" · ") }
    }

    fn draw(&self, svg: &mut String) {
        let ((x, y), (width, height)) = (self.at, TILE);
        let class = self.class;
        let _ = writeln!(
            svg,
            r#"<rect class="card {class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>"#
        );
        label(svg, "first", x + 12, y + 19, &shortened(&self.first));
        label(svg, "small", x + 12, y + 36, &self.second);
    }
}

/// Shortens text to the first line of a tile.
fn shortened(words: &str) -> String {
    match words.char_indices().nth(MAX_FIRST_LINE) {
        Some((end, _)) => format!("{}…", words[..end].trim_end()),
        None => words.to_owned(),
    }
}

/// Adds text, escaped: names come from files, and may contain anything.
fn label(svg: &mut String, class: &str, x: u32, y: u32, words: &str) {
    let short: String =
        words.chars().filter(|letter| !letter.is_control()).take(MAX_LABEL).collect();
    let safe = short.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, r#"<text class="{class}" x="{x}" y="{y}">{safe}</text>"#);
}

fn colour(distance: Distance) -> &'static str {
    match distance {
        Distance::Same | Distance::OneSwitch => "#2f9e6b",
        Distance::Switches => "#7aa832",
        Distance::HostBridge => "#d9a514",
        Distance::NumaNode => "#e07b28",
        Distance::System => "#d0453e",
        Distance::Unknown => "#8a8f98",
    }
}

const STYLE: &str = "\
<style>
text { font-family: system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2733 }
.page { fill: #ffffff }
.title { font-size: 18px; font-weight: 600 }
.name { font-size: 12px; fill: #5b6675 }
.first { font-size: 13px; font-weight: 600 }
.small { font-size: 11px; fill: #4a5565 }
.distance { font-size: 11px; font-weight: 600; text-anchor: middle }
.numa { fill: #f5f7fa; stroke: #d5dce6 }
.bridge { fill: #ffffff; stroke: #d5dce6 }
.card { stroke-width: 1.5 }
.gpu { fill: #eef7ee; stroke: #76b043 }
.nic { fill: #eaf2fc; stroke: #3f7fd0 }
.down { fill: #f3f3f3; stroke: #a9a9a9; stroke-dasharray: 4 3 }
.line { fill: none; stroke-width: 2.5; stroke-linecap: round }
</style>
";
const MARGIN: u32 = 24;
const GAP: u32 = 12;
const TOP: u32 = 52;
/// Height of a frame's name.
const NAME: u32 = 30;
/// Width and height.
const TILE: (u32, u32) = (270, 46);
const BRIDGE_WIDTH: u32 = 2 * TILE.0 + 110;
const NODE_WIDTH: u32 = BRIDGE_WIDTH + 2 * GAP;
const LEGEND_HEIGHT: u32 = 48;
/// Characters of the first line of a tile.
const MAX_FIRST_LINE: usize = 30;
/// Characters of any text.
const MAX_LABEL: usize = 80;
/// For the title.
const MIN_WIDTH: u32 = 480;
