//! The machine: processors on top, below them switches and caches, below those GPUs, ranks and
//! NICs, at the bottom what joins the GPUs. Channels stand as dots below the NIC they use.

use super::sheet::{MARGIN, PAGE, Sheet, gigabytes, tint};
use crate::canvas::{ASIDE, Canvas, Frame, PLAIN, colour, plain, shortened};
use kolo::topo::graph::{Graph, GraphLink, LinkKind, NodeKind};
use kolo::topo::nic;
use kolo::topo::node_graph::RingPart;

/// Room for one device.
const WIDEST: f64 = 84.;
const ROW: f64 = 62.;
const BOX: f64 = 28.;
/// The line of a port.
const STUB: f64 = 8.;

/// Draws the machine from `top` on, and gives the height where it ends.
pub(super) fn draw(sheet: &Sheet, canvas: &mut Canvas, top: f64) -> f64 {
    let graph = &sheet.seated.graph;
    let layout = Layout::new(graph, top + 34.);
    let cpus = graph.of_kind(NodeKind::Cpu);
    links(graph, &layout, canvas);
    ports(graph, &layout, canvas);
    bus(graph, &layout, &cpus, canvas, top);
    for (index, frame) in layout.frames.iter().enumerate() {
        let Some(frame) = frame else { continue };
        node(graph, index, *frame, canvas);
    }
    let mut bottom = layout.bottom + STUB;
    bottom = bottom.max(stations(sheet, &layout, canvas));
    bottom = nvlinks(graph, &layout, canvas, bottom);
    let has_ports = !sheet.found.graph.nets.is_empty();
    legend(graph, canvas, bottom + 26., has_ports)
}

/// Where the nodes are.
struct Layout {
    frames: Vec<Option<Frame>>,
    bottom: f64,
}

impl Layout {
    fn new(graph: &Graph, top: f64) -> Layout {
        let mut layout = Layout {
            frames: vec![None; graph.nodes.len()],
            bottom: top + BOX,
        };
        let cpus = graph.of_kind(NodeKind::Cpu);
        let leaves: usize = cpus.iter().map(|&cpu| leaves(graph, cpu)).sum();
        let gaps = 14. * cpus.len().saturating_sub(1) as f64;
        let unit = ((PAGE - gaps) / leaves as f64).min(WIDEST);
        let mut x = MARGIN;
        for cpu in cpus {
            x = layout.place(graph, cpu, x, top, unit) + 14.;
        }
        layout
    }

    /// Places a node and what hangs below it; gives where its room ends.
    fn place(&mut self, graph: &Graph, node: usize, x: f64, y: f64, unit: f64) -> f64 {
        let below = below(graph, node);
        let mut right = x;
        for &part in &below {
            right = self.place(graph, part, right, y + ROW, unit);
        }
        if below.is_empty() {
            right = x + unit;
        }
        let gap = if unit > 24. { 6. } else { 1.5 };
        self.frames[node] = Some(Frame {
            x: x + gap / 2.,
            y,
            width: right - x - gap,
            height: BOX,
        });
        self.bottom = self.bottom.max(y + BOX);
        right
    }
}

/// Nodes that hang below a node in the picture: each node below the one that its first link leads
/// to.
fn below(graph: &Graph, node: usize) -> Vec<usize> {
    if !matches!(
        graph.nodes[node].kind,
        NodeKind::Cpu | NodeKind::Cache | NodeKind::Pci
    ) {
        return Vec::new();
    }
    let mut found: Vec<usize> = (0..graph.nodes.len())
        .filter(|&other| other != node && above(graph, other) == Some(node))
        .collect();
    found.sort_by_key(|&other| (graph.nodes[other].kind, graph.nodes[other].number));
    found
}

fn above(graph: &Graph, node: usize) -> Option<usize> {
    match graph.nodes[node].kind {
        NodeKind::Cpu | NodeKind::NvSwitch | NodeKind::Net => None,
        _ => {
            let first = graph.leaving(node).first()?;
            Some(graph.links[*first].to)
        }
    }
}

fn leaves(graph: &Graph, node: usize) -> usize {
    let parts = below(graph, node);
    parts
        .iter()
        .map(|&part| leaves(graph, part))
        .sum::<usize>()
        .max(1)
}

fn stroke(kind: LinkKind) -> &'static str {
    match kind {
        LinkKind::NvLink => "#3b8a3b",
        LinkKind::C2c => "#1b9e9e",
        LinkKind::Pci => "#a08040",
        LinkKind::Memory => "#3a87ad",
        LinkKind::Sys => "#c0504d",
        LinkKind::Port => "#8a4a93",
    }
}

/// The width of an arc for a bandwidth.
fn arc_weight(megabytes_per_s: u32) -> f64 {
    (f64::from(megabytes_per_s) / 16_000.).clamp(1., 6.)
}

/// A line's width for a bandwidth.
fn weight(megabytes_per_s: u32) -> f64 {
    (f64::from(megabytes_per_s) / 1000.).sqrt().clamp(4., 18.) / 3.5
}

fn node(graph: &Graph, index: usize, frame: Frame, canvas: &mut Canvas) {
    let node = &graph.nodes[index];
    let (fill, line) = tint(node.kind);
    let long = match node.kind {
        NodeKind::Nic => net_names(graph, index),
        _ => node.label().replace('/', " "),
    };
    let text = if frame.width >= 46. {
        shortened(&long, 12., frame.width - 4.)
    } else {
        node.number.to_string()
    };
    let look = plain(fill, line, 12.);
    canvas.labelled(frame, &text, look);
}

fn net_names(graph: &Graph, nic: usize) -> String {
    let ports = graph.leaving(nic).iter().map(|&link| graph.links[link].to);
    let nets = ports.filter(|&to| graph.nodes[to].kind == NodeKind::Net);
    let names: Vec<&str> = nets.map(|net| graph.nodes[net].name.as_str()).collect();
    if names.iter().all(|name| name.is_empty()) {
        graph.nodes[nic].label().replace('/', " ")
    } else {
        names.join(", ")
    }
}

/// Lines from each node to the one above it.
fn links(graph: &Graph, layout: &Layout, canvas: &mut Canvas) {
    for (index, frame) in layout.frames.iter().enumerate() {
        let (Some(frame), Some(up)) = (frame, above(graph, index)) else {
            continue;
        };
        let Some(higher) = layout.frames[up] else {
            continue;
        };
        let to_it = graph.leaving(index).iter().map(|&link| graph.links[link]);
        let lines: Vec<_> = to_it.filter(|link| link.to == up).collect();
        // A GPU may have two ways to its processor: they stand beside each other.
        for (at, link) in lines.iter().enumerate() {
            let x = frame.middle().0 + 7. * (at as f64 - (lines.len() - 1) as f64 / 2.);
            let (from, to) = ((x, higher.bottom()), (x, frame.y));
            canvas.line(from, to, stroke(link.kind), weight(link.megabytes_per_s));
        }
    }
}

/// The links between processors, drawn as a line above them.
fn bus(graph: &Graph, layout: &Layout, cpus: &[usize], canvas: &mut Canvas, top: f64) {
    let frames: Vec<Frame> = cpus.iter().filter_map(|&cpu| layout.frames[cpu]).collect();
    let rates = rates(graph, LinkKind::Sys);
    let (Some(first), Some(last), Some(&widest)) = (frames.first(), frames.last(), rates.last())
    else {
        return;
    };
    let y = top + 16.;
    let (colour, width) = (stroke(LinkKind::Sys), weight(widest));
    canvas.line((first.middle().0, y), (last.middle().0, y), colour, width);
    for frame in &frames {
        canvas.line(
            (frame.middle().0, y),
            (frame.middle().0, frame.y),
            colour,
            width,
        );
    }
}

/// Each port as the line that leaves its NIC, for the world outside has no place here.
fn ports(graph: &Graph, layout: &Layout, canvas: &mut Canvas) {
    for link in &graph.links {
        let Some(frame) = layout.frames[link.from].filter(|_| link.kind == LinkKind::Port) else {
            continue;
        };
        let leaving = graph
            .leaving(link.from)
            .iter()
            .map(|&link| graph.links[link]);
        let ports: Vec<usize> = leaving
            .filter(|other| other.kind == LinkKind::Port)
            .map(|other| other.to)
            .collect();
        let at = ports.iter().position(|&port| port == link.to).unwrap_or(0);
        let x = frame.middle().0 + 7. * (at as f64 - (ports.len() - 1) as f64 / 2.);
        let (from, to) = ((x, frame.bottom()), (x, frame.bottom() + STUB));
        canvas.line(from, to, stroke(link.kind), weight(link.megabytes_per_s));
    }
}

/// Below every NIC a dot for each channel that comes in or goes out there.
fn stations(sheet: &Sheet, layout: &Layout, canvas: &mut Canvas) -> f64 {
    let graph = &sheet.seated.graph;
    let nets = nic::nets(graph);
    let mut bottom = layout.bottom;
    for (index, &net) in nets.iter().enumerate() {
        let nic = graph.neighbour(net, LinkKind::Port);
        let Some(frame) = nic.and_then(|nic| layout.frames[nic]) else {
            continue;
        };
        let uses = |ring: &RingPart| {
            let net = Some(index as u32);
            ring.entry == net || ring.exit.map(|exit| exit.net) == net
        };
        let rings = sheet.rings().into_iter().map(|group| group.part);
        let parts: Vec<usize> = rings
            .filter(|&part| uses(&sheet.found.graph.rings[part]))
            .collect();
        let across = ((frame.width / 13.) as usize).clamp(1, 6);
        for (at, part) in parts.iter().enumerate() {
            let in_row = across.min(parts.len() - at / across * across);
            let column = (at % across) as f64 - (in_row - 1) as f64 / 2.;
            let x = frame.middle().0 + 13. * column;
            let y = frame.bottom() + STUB + 8. + 13. * (at / across) as f64;
            canvas.dot(x, y, 5., colour(*part), "none");
            bottom = bottom.max(y + 5.);
        }
    }
    bottom
}

/// A switch as a bar below its GPUs; links from GPU to GPU as arcs.
fn nvlinks(graph: &Graph, layout: &Layout, canvas: &mut Canvas, bottom: f64) -> f64 {
    let mut end = bottom;
    for switch in graph.of_kind(NodeKind::NvSwitch) {
        let gpus: Vec<(Frame, u32)> = graph
            .leaving(switch)
            .iter()
            .filter_map(|&link| {
                let link = graph.links[link];
                Some((layout.frames[link.to]?, link.megabytes_per_s))
            })
            .collect();
        let left = gpus
            .iter()
            .map(|(frame, _)| frame.x)
            .fold(f64::MAX, f64::min);
        let right = gpus
            .iter()
            .map(|(frame, _)| frame.right())
            .fold(0., f64::max);
        let frame = Frame {
            x: left,
            y: bottom + 26.,
            width: right - left,
            height: BOX,
        };
        for (gpu, rate) in gpus {
            let x = gpu.middle().0;
            let line = stroke(LinkKind::NvLink);
            canvas.line((x, gpu.bottom()), (x, frame.y), line, weight(rate));
        }
        let (fill, line) = tint(NodeKind::NvSwitch);
        let look = plain(fill, line, 12.);
        canvas.labelled(frame, "NVSwitch", look);
        end = end.max(frame.bottom());
    }
    for link in graph
        .links
        .iter()
        .step_by(2)
        .filter(|link| link.kind == LinkKind::NvLink)
    {
        let (Some(a), Some(b)) = (layout.frames[link.from], layout.frames[link.to]) else {
            continue;
        };
        let (from, to) = (a.middle().0, b.middle().0);
        let y = a.bottom();
        // Farther GPUs are joined by deeper arcs, so that no two lie on each other.
        let far = (to - from).abs();
        let turn = f64::from(graph.nodes[link.from].number % 4);
        let depth = 12. + far * 0.2 + if far > 300. { 9. * turn } else { 0. };
        let data = format!(
            "M{from:.1} {y:.1}C{from:.1} {:.1} {to:.1} {:.1} {to:.1} {y:.1}",
            y + depth * 1.33,
            y + depth * 1.33
        );
        canvas.path(&data, stroke(link.kind), arc_weight(link.megabytes_per_s));
        end = end.max(y + depth + 4.);
    }
    end
}

/// The bandwidths of a kind of link, ascending.
fn rates(graph: &Graph, kind: LinkKind) -> Vec<u32> {
    rates_of(graph, |link| link.kind == kind)
}

fn rates_of(graph: &Graph, is_it: impl Fn(&GraphLink) -> bool) -> Vec<u32> {
    let links = graph.links.iter().filter(|link| is_it(link));
    let mut rates: Vec<u32> = links.map(|link| link.megabytes_per_s).collect();
    rates.sort_unstable();
    rates.dedup();
    rates
}

/// The kinds of links that there are, and how fast they are: `PCI 12, 24 GB/s`.
pub(super) fn legend_texts(graph: &Graph) -> Vec<(LinkKind, String)> {
    let kinds = [
        LinkKind::NvLink,
        LinkKind::C2c,
        LinkKind::Pci,
        LinkKind::Memory,
        LinkKind::Sys,
        LinkKind::Port,
    ];
    let text = |kind: LinkKind| {
        let of = |is_guess| {
            let rates = rates_of(graph, |link| link.kind == kind && link.is_guess == is_guess);
            let rates: Vec<String> = rates.iter().map(|&rate| gigabytes(rate)).collect();
            (!rates.is_empty()).then(|| format!("{} GB/s", rates.join(", ")))
        };
        let guess = of(true).map(|rates| format!("unknown (planned as {rates})"));
        let parts: Vec<String> = [of(false), guess].into_iter().flatten().collect();
        let text = format!("{} {}", kind.word(), parts.join(", "));
        (!parts.is_empty()).then_some((kind, text))
    };
    kinds.into_iter().filter_map(text).collect()
}

/// The legend: meaning and speed of the lines.
fn legend(graph: &Graph, canvas: &mut Canvas, y: f64, has_ports: bool) -> f64 {
    let mut x = MARGIN;
    for (kind, text) in legend_texts(graph) {
        canvas.line((x, y - 4.), (x + 22., y - 4.), stroke(kind), 3.);
        x += 28.;
        canvas.text(x, y, &text, PLAIN);
        x += crate::canvas::text_width(&text, 12.) + 26.;
    }
    if has_ports {
        canvas.dot(x + 5., y - 4., 5., ASIDE, "none");
        canvas.text(x + 15., y, "a ring that uses this port", PLAIN);
    }
    y + 8.
}
