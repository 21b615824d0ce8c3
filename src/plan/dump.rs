//! A plan as text: one line a step, for people and for comparing plans in tests.

use super::{Direction, Link, Operand, POST_SCALE, PRE_SCALE, Plan, Space, Step, StepOp};
use std::fmt::Write;

/// The whole plan.
pub fn dump(plan: &Plan) -> String {
    let shape = &plan.shape;
    let mut text = format!(
        "{} {} rank {} of {} root {} channels {} chunks {} {:?}",
        shape.collective.name(),
        shape.algorithm.name(),
        shape.rank,
        shape.nranks,
        shape.root,
        shape.channels,
        plan.chunks,
        plan.layout,
    );
    if plan.pieces > 1 {
        let _ = write!(text, ", at most {} in a token", plan.pieces);
    }
    if plan.scratch > 0 {
        let _ = write!(text, ", {} of scratch a lane", plan.scratch);
    }
    text.push('\n');
    for (index, lane) in plan.lanes.iter().enumerate() {
        let _ = writeln!(text, "lane {index} channel {}", lane.channel);
        for (number, step) in plan.lane_steps(index).iter().enumerate() {
            let _ = writeln!(text, "  {number:>3}  {}", step_text(plan, step));
        }
    }
    text
}

/// One step: `fold ch0<-3 + input[2] => output[2], ch0->1   x 5 stride -1`; a packed one:
/// `copy output[4..6] => ch0->1   packed 3 runs, stride 8`.
pub fn step_text(plan: &Plan, step: &Step) -> String {
    let op = match step.op {
        StepOp::Copy => "copy",
        StepOp::Fold => "fold",
        StepOp::Token => "token",
    };
    let run = if step.is_packed() { step.chunks } else { 1 };
    let list = |operands: &[Operand], separator: &str| {
        let names: Vec<String> = operands
            .iter()
            .map(|operand| operand_text(plan, operand, (step.chunk, run)))
            .collect();
        names.join(separator)
    };
    let mut text = format!("{op} {}", list(plan.lists.get(step.srcs), " + "));
    let _ = write!(text, " => {}", list(plan.lists.get(step.dsts), ", "));
    match (step.is_packed(), step.repeat) {
        (true, 1) => text.push_str("   packed"),
        (true, runs) => {
            let _ = write!(text, "   packed {runs} runs, stride {}", step.stride);
        }
        (false, 1) => {}
        (false, repeat) => {
            let _ = write!(text, "   x {repeat} stride {}", step.stride);
        }
    }
    for (flag, name) in [(PRE_SCALE, " pre"), (POST_SCALE, " post")] {
        if step.flags & flag != 0 {
            text.push_str(name);
        }
    }
    text
}

/// An operand, with the chunks of the first run.
fn operand_text(plan: &Plan, operand: &Operand, (chunk, run): (u32, u16)) -> String {
    let shifted = i64::from(chunk) + i64::from(operand.offset);
    let modulus = match operand.space {
        Space::Scratch => plan.scratch,
        _ => plan.chunks,
    };
    let modulus = i64::from(modulus.max(1));
    let first = shifted.rem_euclid(modulus);
    let chunks = match run {
        1 => format!("{first}"),
        _ => format!("{first}..{}", (first + i64::from(run) - 1) % modulus + 1),
    };
    let keep = if operand.keep { " keep" } else { "" };
    match operand.space {
        Space::Input => format!("input[{chunks}]"),
        Space::Output => format!("output[{chunks}]"),
        Space::Scratch => format!("scratch[{chunks}]"),
        Space::Connection => {
            let used = &plan.connections[usize::from(operand.index)];
            match (used.link, used.direction) {
                (
                    Link::Pair {
                        reader, channel, ..
                    },
                    Direction::Send,
                ) => {
                    format!("ch{channel}->{reader}{keep}")
                }
                (
                    Link::Pair {
                        writer, channel, ..
                    },
                    Direction::Recv,
                ) => {
                    format!("ch{channel}<-{writer}{keep}")
                }
                (Link::Fan { .. }, Direction::Send) => format!("fan->all{keep}"),
                (Link::Fan { writer }, Direction::Recv) => format!("fan<-{writer}{keep}"),
                (
                    Link::Cast {
                        channel, readers, ..
                    },
                    Direction::Send,
                ) => match readers.place() {
                    0 => format!("cast{channel}->all{keep}"),
                    place => format!("cast{channel}.{place}->group{keep}"),
                },
                (
                    Link::Cast {
                        writer,
                        channel,
                        readers,
                    },
                    Direction::Recv,
                ) => match readers.place() {
                    0 => format!("cast{channel}<-{writer}{keep}"),
                    place => format!("cast{channel}.{place}<-{writer}{keep}"),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Algorithm, Collective, Emitter, Layout, Runs, Shape};

    #[test]
    fn packed_steps_show_their_runs() {
        let shape = Shape {
            collective: Collective::AllGather,
            algorithm: Algorithm::Ring,
            rank: 0,
            nranks: 16,
            root: 0,
            channels: 1,
        };
        let mut e = Emitter::new(shape, 16, Layout::Blocks);
        let (from, to) = (e.from(1), e.to(1));
        e.send_from_output_many(to, 14..18);
        let runs = Runs {
            first: 4,
            length: 2,
            count: 3,
            distance: -6,
        };
        e.recv_many(from, runs);
        let plan = e.finish();
        let text = |step: usize| step_text(&plan, &plan.steps[step]);
        assert_eq!(text(0), "copy output[14..2] => ch0->1   packed");
        assert_eq!(
            text(1),
            "copy ch0<-1 => output[4..6]   packed 3 runs, stride -6"
        );
    }
}
