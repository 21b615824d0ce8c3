//! Bundle: the messages of all pairs at once.

use super::call::Call;
use super::hop::taper;
use super::levels::ordered;
use super::shared::{Commons, Flows};
use super::work::Work;
use crate::plan::Collective;
use crate::price::costs::Carrier;

/// Every pair has a connection of its own; the busiest core or interface decides.
pub(super) fn bundle(call: &Call) -> Option<f64> {
    let machine = &call.site.machine;
    let costs = &call.site.costs;
    let others = call.n - 1.0;
    let (sends, receives) = match call.collective {
        Collective::AllToAll => (others, others),
        Collective::Gather => (0.0, others),
        Collective::Scatter => (others, 0.0),
        Collective::Send | Collective::Recv => (0.0, 1.0),
        Collective::ReduceScatter => return ordered(call),
        _ => return None,
    };
    let chunk = call.geometry.chunk_bytes() as f64;
    let rounds = (call.bytes / chunk).ceil().max(1.0);
    let mut core = 0.0;
    let mut way: f64 = 0.0;
    let mut link: f64 = 0.0;
    // The whole of one message at its other end.
    let mut beyond: f64 = 0.0;
    let everybody = match call.collective {
        Collective::Send | Collective::Recv => vec![(1.0, call.level(1))],
        _ => call.everybody(),
    };
    for (part, level) in everybody {
        let cost = costs.level(level);
        let token = costs.step_ns + cost.overhead_ns;
        let sent = costs.read_ns + costs.write_ns + cost.carry_ns;
        let out = rounds * token + call.bytes * sent;
        let got = cost.fetch_ns(costs.read_ns) + costs.write_ns;
        let taken = rounds * token + call.bytes * got;
        core += part * (sends * out + receives * taken);
        // The other side's share of the first or last token.
        let other = if sends < receives { out } else { taken };
        way = way.max(cost.latency_ns + other / rounds);
        beyond = beyond.max(other);
        if cost.carrier == Carrier::Wire {
            let flows = match call.collective {
                Collective::AllToAll => {
                    f64::from(machine.per_node) / f64::from(machine.nics.max(1))
                }
                _ => 1.0,
            };
            let tokens = part * others.max(1.0) * flows;
            let bytes = call.bytes * cost.byte_ns * taper(call.site, level);
            link += tokens * (rounds * cost.gap_ns + bytes);
        }
    }
    let mut own = costs.step_ns + call.bytes * (costs.read_ns + costs.write_ns);
    if call.collective.is_point_to_point() {
        own = 0.0;
    }
    let shared = beside(call, sends, receives).taken(rounds, call.bytes);
    if machine.crowded() {
        let crowd = f64::from(machine.per_node) / f64::from(machine.cores);
        core = match call.collective {
            Collective::AllToAll => (core + own + 2.0 * costs.switch_ns) * crowd,
            _ => core + (costs.switch_ns + way) * crowd,
        };
    }
    Some(way + (core + own).max(link).max(beyond).max(shared))
}

/// Memory and the ways between caches, where every pair has a message.
fn beside(call: &Call, sends: f64, receives: f64) -> Commons {
    // A rank that sends copies its own block beside.
    let work = |reads: f64, locals: f64| Work {
        reads,
        locals,
        writes: reads,
        ..Work::default()
    };
    let parts = call.parts();
    match call.collective {
        Collective::AllToAll => {
            let all = Flows::Spread(f64::from(call.site.machine.per_node));
            Commons::of(call, parts, work(receives, sends), all)
        }
        Collective::Gather => Commons::of(call, parts, work(receives, 0.0), Flows::ToOne),
        Collective::Scatter => Commons::of(call, parts, work(1.0, 1.0), Flows::FromOne),
        _ => Commons::default(),
    }
}
