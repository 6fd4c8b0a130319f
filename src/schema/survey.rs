//! What a plan says as a whole: no cycles without progress, how deep and how costly it is, what each node can accept.

use crate::schema::{
    kind::Kinds,
    plan::{ANYTHING, Node, NodeId, Plan},
};

/// The most schemas that may apply to one value through references and combinations, one inside the other.
const MAX_CHAIN: usize = 64;

/// Completes a plan whose nodes are read.
pub(super) fn complete(plan: &mut Plan) -> Result<(), String> {
    let mut survey = Survey { states: vec![State::New; plan.nodes.len()], plan };
    for id in 0..survey.states.len() {
        survey.plan.chain = survey.plan.chain.max(survey.visit(id, 0)?);
    }
    plan.ways = ways(plan);
    Ok(())
}

/// Follows what applies to one value: cuts cycles, measures chains, narrows kinds.
struct Survey<'a> {
    plan: &'a mut Plan,
    states: Vec<State>,
}

#[derive(Clone, Copy)]
enum State {
    New,
    Active,
    /// Done, with the longest chain from here.
    Done(usize),
}

impl Survey<'_> {
    fn visit(&mut self, id: NodeId, depth: usize) -> Result<usize, String> {
        match self.states[id] {
            State::Done(chain) => return Ok(chain),
            _ if depth > MAX_CHAIN => {
                return Err(format!("#: more than {MAX_CHAIN} schemas apply to one value"));
            }
            _ => self.states[id] = State::Active,
        }
        let mut edges = Vec::new();
        self.plan.nodes[id].for_each_edge(|edge| edges.push(*edge));
        let mut longest = 0;
        for next in edges {
            // A schema that contains itself without a step into the value says nothing new.
            if matches!(self.states[next], State::Active) {
                let cut = |edge: &mut NodeId| *edge = if *edge == next { ANYTHING } else { *edge };
                self.plan.nodes[id].for_each_edge(cut);
            } else {
                longest = longest.max(self.visit(next, depth + 1)?);
            }
        }
        self.plan.nodes[id].kinds = self.kinds(id);
        self.states[id] = State::Done(longest + 1);
        Ok(longest + 1)
    }

    fn kinds(&self, id: NodeId) -> Kinds {
        let node = &self.plan.nodes[id];
        let kinds_of = |id: &NodeId| self.plan.nodes[*id].kinds;
        let mut kinds = node.all.iter().map(kinds_of).fold(node.kinds, |all, it| all & it);
        for union in &node.unions {
            kinds =
                kinds & union.branches.iter().map(kinds_of).fold(Kinds::NONE, |all, it| all | it);
        }
        if let Some(members) = &node.members {
            kinds = kinds & members.iter().map(Kinds::of).fold(Kinds::NONE, |all, it| all | it);
        }
        kinds
    }
}

/// How many visits of schemas the costliest path into a value takes, each way to the same schema counted.
fn ways(plan: &mut Plan) -> usize {
    let mut ways = vec![None; plan.nodes.len()];
    let mut is_active = vec![false; plan.nodes.len()];
    let mut stack = (0..plan.nodes.len()).collect::<Vec<_>>();
    // References lead far: a stack of our own, on which a node waits below what it refers to.
    while let Some(&id) = stack.last() {
        let (added, alternative) = plan.nodes[id].visited();
        if ways[id].is_none() && !is_active[id] {
            is_active[id] = true;
            let next = added.into_iter().chain(alternative);
            stack.extend(next.filter(|&it| ways[it].is_none() && !is_active[it]));
            continue;
        }
        if ways[id].is_none() {
            // A node that is still open is a cycle, and cycles are remembered by the validator.
            let known = |id: NodeId| ways[id].unwrap_or(1_usize);
            let sum = added.into_iter().map(known).fold(1, usize::saturating_add);
            let max = alternative.into_iter().map(known).max().unwrap_or(0);
            ways[id] = Some(sum.saturating_add(max));
        }
        stack.pop();
    }
    ways.into_iter().flatten().max().unwrap_or(1)
}

impl Node {
    /// The nodes that are all visited for a value, and those of which a step into the value visits one.
    fn visited(&mut self) -> (Vec<NodeId>, Vec<NodeId>) {
        let mut added = Vec::new();
        self.for_each_edge(|edge| added.push(*edge));
        added.extend(self.fields.patterns.iter().map(|(_, node)| *node));
        added.extend(self.fields.names);
        added.extend(self.items.contains.map(|it| it.node));
        let known = self.fields.known.values().copied();
        let items = self.items.first.iter().copied();
        let rest = self.fields.additional.into_iter().chain(self.items.rest);
        let rest = rest.chain(self.fields.unevaluated).chain(self.items.unevaluated);
        (added, known.chain(items).chain(rest).collect())
    }
}
