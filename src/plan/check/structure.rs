//! Rules for one plan before it is put beside others, and for plans of one call.

use super::report::{Counterexample, link_text};
use crate::plan::{Collective, Direction, Layout, Link, Operand, Plan, Shape, Space, validate};

/// Plans of a collective: one a rank, in order, made for the same call.
pub(super) fn same_call(plans: &[Plan]) -> Result<(), Counterexample> {
    let Some(first) = plans.first() else {
        return Ok(());
    };
    for (rank, plan) in plans.iter().enumerate() {
        let rank = rank as u32;
        let fault = |text: String| Err(Counterexample::new(plan, rank, 0, 0, text));
        let wanted = Shape {
            rank,
            ..first.shape
        };
        if plan.shape != wanted || plans.len() != plan.shape.nranks as usize {
            let (found, count) = (plan.shape, plans.len());
            return fault(format!(
                "{count} plans; this is {found:?}, expected {wanted:?}"
            ));
        }
        if shape_fault(plan) {
            return fault("the root is no rank, or the layout does not fit the collective".into());
        }
        let channels = |plan: &Plan| plan.lanes.iter().map(|lane| lane.channel).max();
        let (mine, others) = (channels(plan), channels(first));
        if mine.is_some() && others.is_some() && mine != others {
            let text = "cuts the data for another number of channels than rank 0";
            return fault(text.into());
        }
        if plan.pieces != first.pieces {
            return fault(format!(
                "cuts chunks so that {} fit a token, rank 0 so that {} do: all ranks must declare \
                 the most that any of them packs (Emitter::pieces)",
                plan.pieces, first.pieces
            ));
        }
        if (plan.chunks, plan.layout) != (first.chunks, first.layout) {
            return fault(format!(
                "cuts the data into {} chunks, {:?}; rank 0 into {}, {:?}",
                plan.chunks, plan.layout, first.chunks, first.layout
            ));
        }
    }
    Ok(())
}

/// Blocks of one count are cut by rank, so only a result that every rank sees whole can be split.
fn shape_fault(plan: &Plan) -> bool {
    let whole = matches!(
        plan.shape.collective,
        Collective::AllReduce | Collective::Broadcast | Collective::Reduce
    );
    plan.shape.root >= plan.shape.nranks || (plan.layout == Layout::Split && !whole)
}

/// Whether the operand is another chunk of the caller's buffers than the step's own.
fn is_moved(plan: &Plan, operand: &Operand) -> bool {
    let offset = i64::from(operand.offset).rem_euclid(i64::from(plan.chunks.max(1)));
    matches!(operand.space, Space::Input | Space::Output) && offset != 0
}

/// Checks one plan before it is put beside others.
pub(super) fn structure(plan: &Plan, rank: u32, nranks: u32) -> Result<(), Counterexample> {
    let fault = |lane, step, text| Counterexample::new(plan, rank, lane, step, text);
    validate::first_fault(plan).map_err(|(lane, step, text)| fault(lane, step, text))?;
    for used in &plan.connections {
        let mine = match used.direction {
            Direction::Send => used.link.writer() == rank,
            Direction::Recv => used.link.is_read_by(rank),
        };
        let legal = match used.link {
            Link::Pair { writer, reader, .. } => writer < nranks && reader < nranks,
            Link::Fan { writer } | Link::Cast { writer, .. } => nranks > 1 && writer < nranks,
        };
        if !(mine && legal) {
            let text = format!("{} is not this rank's to use", link_text(used.link));
            return Err(fault(0, 0, text));
        }
    }
    for (number, lane) in plan.lanes.iter().enumerate() {
        if lane.channel >= plan.shape.channels {
            let (channel, channels) = (lane.channel, plan.shape.channels);
            let text = format!("the lane is of channel {channel}, and there are {channels}");
            return Err(fault(number, 0, text));
        }
        if lane.steps.is_empty() {
            return Err(fault(number, 0, "the lane is empty".into()));
        }
        for (at, step) in plan.steps[lane.steps.clone()].iter().enumerate() {
            for (list, kept_is_legal) in [(step.srcs, true), (step.dsts, false)] {
                let operands = plan.lists.get(list);
                if plan.layout == Layout::Split && operands.iter().any(|o| is_moved(plan, o)) {
                    let text = "takes one chunk of a split for another: their lengths differ";
                    return Err(fault(number, at, text.into()));
                }
                if !kept_is_legal && operands.iter().any(|operand| operand.keep) {
                    return Err(fault(number, at, "keeps a token it writes".into()));
                }
                let mut used: Vec<usize> =
                    operands.iter().filter_map(|o| o.as_connection()).collect();
                used.sort_unstable();
                if used.windows(2).any(|pair| pair[0] == pair[1]) {
                    let text = "names one connection twice in a list".into();
                    return Err(fault(number, at, text));
                }
            }
        }
    }
    Ok(())
}
