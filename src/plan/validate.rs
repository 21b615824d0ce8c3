//! Rules for a single plan before anyone runs it: indices, directions, ownership.

use super::{Direction, Operand, PACKED, POST_SCALE, PRE_SCALE, Plan, Space, Step, StepOp};

/// The first fault of the plan, as a sentence that names lane and step.
pub fn validate(plan: &Plan) -> Result<(), String> {
    first_fault(plan).map_err(|(lane, step, fault)| {
        let rank = plan.shape.rank;
        format!("rank {rank}, lane {lane}, step {step}: {fault}")
    })
}

/// The first fault of the plan: lane, step of the lane, and what is wrong.
pub fn first_fault(plan: &Plan) -> Result<(), (usize, usize, String)> {
    let mut owner: Vec<Option<usize>> = vec![None; plan.connections.len()];
    let mut expected_start = 0;
    for (lane_index, lane) in plan.lanes.iter().enumerate() {
        let fault = |step: usize, text: String| Err((lane_index, step, text));
        let tiles = lane.steps.start == expected_start && lane.steps.start <= lane.steps.end;
        if !tiles || lane.steps.end > plan.steps.len() {
            return fault(0, "lanes do not tile the steps".into());
        }
        expected_start = lane.steps.end;
        for (number, step) in plan.lane_steps(lane_index).iter().enumerate() {
            if let Err(text) = step_fault(plan, step) {
                return fault(number, text);
            }
            let lists = [step.srcs, step.dsts].map(|list| plan.lists.get(list));
            for connection in lists
                .into_iter()
                .flatten()
                .filter_map(Operand::as_connection)
            {
                let holder = owner[connection].get_or_insert(lane_index);
                if *holder != lane_index {
                    let text = format!("connection {connection} belongs to lane {holder}");
                    return fault(number, text);
                }
            }
        }
    }
    if expected_start != plan.steps.len() {
        return Err((plan.lanes.len(), 0, "steps outside of every lane".into()));
    }
    Ok(())
}

fn step_fault(plan: &Plan, step: &Step) -> Result<(), String> {
    if [step.srcs, step.dsts]
        .iter()
        .any(|list| usize::from(list.0) >= plan.lists.len())
    {
        return Err("an operand list does not exist".into());
    }
    let (srcs, dsts) = (plan.lists.get(step.srcs), plan.lists.get(step.dsts));
    if step.repeat == 0 {
        return Err("repeat is 0".into());
    }
    if step.chunk >= plan.chunks.max(1) {
        return Err(format!("chunk {} of {}", step.chunk, plan.chunks));
    }
    pieces_fault(plan, step)?;
    match step.op {
        StepOp::Copy if srcs.len() != 1 => return Err("a copy has one source".into()),
        StepOp::Fold if srcs.is_empty() => return Err("a fold has sources".into()),
        StepOp::Token
            if srcs
                .iter()
                .chain(dsts)
                .any(|o| o.space != Space::Connection) =>
        {
            return Err("a token step touches connections only".into());
        }
        _ => {}
    }
    let direction_fault = |operand: &super::Operand, wanted: Direction| {
        let Some(index) = operand.as_connection() else {
            return Ok(());
        };
        match plan.connections.get(index) {
            None => Err(format!("connection {index} does not exist")),
            Some(c) if c.direction != wanted => {
                Err(format!("connection {index} is used against its direction"))
            }
            Some(_) => Ok(()),
        }
    };
    srcs.iter()
        .try_for_each(|operand| direction_fault(operand, Direction::Recv))?;
    dsts.iter()
        .try_for_each(|operand| direction_fault(operand, Direction::Send))?;
    if dsts.iter().any(|operand| operand.space == Space::Input) {
        return Err("the input is never written".into());
    }
    let mut operands = srcs.iter().chain(dsts);
    match plan.scratch == 0 && operands.any(|operand| operand.space == Space::Scratch) {
        true => Err("uses scratch memory, and the plan has none".into()),
        false => Ok(()),
    }
}

/// Checks the chunks of the step's tokens.
fn pieces_fault(plan: &Plan, step: &Step) -> Result<(), String> {
    if step.flags & !(PRE_SCALE | POST_SCALE | PACKED) != 0 {
        return Err(format!("flags {:#x} mean nothing", step.flags));
    }
    let pieces = step.pieces();
    if !step.is_packed() {
        let payload = u16::from(step.op != StepOp::Token);
        return match step.chunks == payload {
            true => Ok(()),
            false => Err(format!("{:?} with {} chunks", step.op, step.chunks)),
        };
    }
    if step.op == StepOp::Token || pieces == 0 {
        return Err(format!("{:?} packs {pieces} chunks", step.op));
    }
    if pieces > plan.pieces {
        let most = plan.pieces;
        return Err(format!(
            "packs {pieces} chunks, and tokens of this plan hold at most {most}"
        ));
    }
    let mut chunks: Vec<u32> = (0..pieces)
        .map(|piece| step.piece_at(0, piece, plan.chunks))
        .collect();
    chunks.sort_unstable();
    match chunks.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("packs chunk {} twice", pair[0])),
        None => Ok(()),
    }
}
