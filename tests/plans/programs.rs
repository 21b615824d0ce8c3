//! A program says what its plan says, read through the image alone: so what the checker proves of
//! plans holds for what runs.

use kolo::plan::program::{ALL_OTHERS, MAGIC, NO_LANE, VERSION};
use kolo::plan::{Link, ListId, Operand, Plan, Program, Readers};

/// Holds every word of the program of a plan against the plan.
pub fn lower(plan: &Plan) -> Program {
    let program = Program::lower(plan).expect("a program");
    let header = program.header();
    assert_eq!((header.magic, header.version), (MAGIC, VERSION));
    assert_eq!(header.bytes as usize, program.image().len());
    let (shape, layout) = (plan.shape, plan.layout);
    assert_eq!(
        (header.rank, header.nranks, header.root),
        (shape.rank, shape.nranks, shape.root)
    );
    assert_eq!(
        (header.collective, header.algorithm, header.layout),
        (shape.collective as u8, shape.algorithm as u8, layout)
    );
    assert_eq!(
        (program.chunks(), program.pieces(), program.scratch()),
        (plan.chunks, plan.pieces, plan.scratch)
    );
    assert_eq!(header.channels, plan.channels());
    assert_eq!(program.lanes().len(), plan.lanes.len());
    for (number, lane) in plan.lanes.iter().enumerate() {
        assert_eq!(program.lanes()[number].channel, u32::from(lane.channel));
        assert_eq!(program.lane_steps(number), plan.lane_steps(number));
        let steps = program.lane_steps_per_round(number);
        assert_eq!(steps, plan.lane_steps_per_round(number));
    }
    assert_eq!(program.steps(), plan.steps);
    assert_eq!(header.lists.count as usize, plan.lists.len());
    for list in (0..plan.lists.len()).map(|number| ListId(number as u16)) {
        assert_eq!(program.list(list), plan.lists.get(list));
    }
    connections(plan, &program);
    program
}

fn connections(plan: &Plan, program: &Program) {
    assert_eq!(program.connections().len(), plan.connections.len());
    for (index, used) in plan.connections.iter().enumerate() {
        let entry = &program.connections()[index];
        assert_eq!(entry.connection_use(), *used);
        let to_all = match used.link {
            Link::Pair { .. } => false,
            Link::Fan { .. } => true,
            Link::Cast { readers, .. } => readers == Readers::ALL,
        };
        assert_eq!(entry.reader == ALL_OTHERS, to_all);
        let uses = |lane: &usize| {
            let steps = plan.lane_steps(*lane).iter();
            let lists = steps.flat_map(|step| [step.srcs, step.dsts]);
            let mut operands = lists.flat_map(|list| plan.lists.get(list));
            operands.any(|operand: &Operand| operand.as_connection() == Some(index))
        };
        let lane = (0..plan.lanes.len()).find(uses);
        assert_eq!(entry.lane, lane.map_or(NO_LANE, |lane| lane as u32));
    }
}
