//! A plan as text: one line a step, for people and for comparing plans in tests.

use super::{Direction, Link, Operand, POST_SCALE, PRE_SCALE, Plan, Space, Step, StepOp};
use std::fmt::Write;

/// The whole plan.
pub fn dump(plan: &Plan) -> String {
    let shape = &plan.shape;
    let mut text = format!(
        "{} {} rank {} of {} root {} channels {} chunks {} {:?}\n",
        shape.collective.name(),
        shape.algorithm.name(),
        shape.rank,
        shape.nranks,
        shape.root,
        shape.channels,
        plan.chunks,
        plan.layout,
    );
    for (index, lane) in plan.lanes.iter().enumerate() {
        let _ = writeln!(text, "lane {index} channel {}", lane.channel);
        for (number, step) in plan.lane_steps(index).iter().enumerate() {
            let _ = writeln!(text, "  {number:>3}  {}", step_text(plan, step));
        }
    }
    text
}

/// One step: `fold ch0<-3 + input[2] => output[2], ch0->1   x 5 stride -1`.
pub fn step_text(plan: &Plan, step: &Step) -> String {
    let op = match step.op {
        StepOp::Copy => "copy",
        StepOp::Fold => "fold",
        StepOp::Token => "token",
    };
    let list = |operands: &[Operand], separator: &str| {
        let names: Vec<String> = operands
            .iter()
            .map(|operand| operand_text(plan, operand, step.chunk))
            .collect();
        names.join(separator)
    };
    let mut text = format!("{op} {}", list(plan.lists.get(step.srcs), " + "));
    let _ = write!(text, " => {}", list(plan.lists.get(step.dsts), ", "));
    if step.repeat > 1 {
        let _ = write!(text, "   x {} stride {}", step.repeat, step.stride);
    }
    for (flag, name) in [(PRE_SCALE, " pre"), (POST_SCALE, " post")] {
        if step.flags & flag != 0 {
            text.push_str(name);
        }
    }
    text
}

fn operand_text(plan: &Plan, operand: &Operand, chunk: u32) -> String {
    let shifted = i64::from(chunk) + i64::from(operand.offset);
    let chunk = shifted.rem_euclid(i64::from(plan.chunks.max(1)));
    let keep = if operand.keep { " keep" } else { "" };
    match operand.space {
        Space::Input => format!("input[{chunk}]"),
        Space::Output => format!("output[{chunk}]"),
        Space::Scratch => format!("scratch[{chunk}]"),
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
            }
        }
    }
}
