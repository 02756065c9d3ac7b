//! From a recording to a [`Schedule`]: expand, validate, prune, find lifetimes, share whole buffers.

use super::{Expansion, Graph, Kind, Pass, PassId, TensorInfo};
use crate::error::{Error, Result};
use crate::kernel::{Access, Caps, KernelSpec, OnCuda, OnWgpu, Role};
use crate::tensor::{DType, Dims, Tensor};

/// How far passes are broken down.
#[derive(Clone, Copy, Debug)]
pub enum Lowering<'a> {
    /// Not at all: every pass runs its reference (the CPU backend).
    Reference,
    /// Until every step is one dispatch on a device with these capabilities.
    Device(&'a Caps),
    /// Until every step is one launch, or one call of a library, on CUDA.
    Cuda(&'a Caps),
}

/// One step: a kernel that a backend runs as a whole.
#[derive(Clone, Debug)]
pub struct Step {
    /// The kernel.
    pub kernel: &'static KernelSpec,
    /// Its parameter bytes.
    pub params: Vec<u8>,
    /// Its tensors in port order.
    pub args: Vec<Option<Tensor>>,
    /// Sizes of its named dimensions.
    pub dims: Dims,
    /// The recorded pass it comes from.
    pub pass: PassId,
    /// Its number among the steps of that pass, before any were dropped.
    pub ordinal: usize,
}

impl Step {
    /// Tensors the step reads.
    pub fn reads(&self) -> impl Iterator<Item = Tensor> + '_ {
        self.with_access(Access::Read)
    }

    fn fixed_params(&self) -> Vec<u8> {
        let table = self.kernel.params;
        let fixed = table.iter().filter(|f| f.role == Role::Fixed);
        fixed.flat_map(|f| f.bytes_in(table, &self.params).to_vec()).collect()
    }

    /// Tensors the step writes.
    pub fn writes(&self) -> impl Iterator<Item = Tensor> + '_ {
        self.with_access(Access::Write)
    }

    /// Tensors that hold the number of workgroups of the step.
    #[cfg(any(feature = "wgpu", feature = "cli"))]
    pub(crate) fn group_counts(&self) -> impl Iterator<Item = Tensor> + '_ {
        let ports = self.kernel.ports.iter().zip(&self.args);
        ports.filter(|(p, _)| p.groups).filter_map(|(_, a)| *a)
    }

    fn with_access(&self, access: Access) -> impl Iterator<Item = Tensor> + '_ {
        let ports = self.kernel.ports.iter().zip(&self.args);
        ports.filter(move |(p, _)| p.access == access).filter_map(|(_, a)| *a)
    }
}

/// A piece of memory that transients with disjoint lifetimes share.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its size.
    pub bytes: u64,
    /// The tensors that live in it, in the order of their lives.
    pub tensors: Vec<u32>,
}

/// What a backend consumes: steps in order, and where every tensor lives. Plain data.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub(crate) graph: u32,
    /// The graph's label.
    pub label: String,
    /// All tensors, those that expansions added included.
    pub tensors: Vec<TensorInfo>,
    /// Steps in order of execution.
    pub steps: Vec<Step>,
    /// Recorded passes that nobody reads, left out.
    pub dropped: Vec<PassId>,
    /// Memory that transients share.
    pub slots: Vec<Slot>,
    /// Slot of each tensor; `None` for inputs, constants, outputs, views and unused tensors.
    pub slot_of: Vec<Option<usize>>,
    pub(crate) steps_of_pass: Vec<usize>,
    /// First and last step that touches each tensor's memory.
    pub spans: Vec<Option<(usize, usize)>>,
}

/// Bytes of a tensor on a device: whole words, and never nothing.
pub(crate) fn device_bytes(info: &TensorInfo) -> u64 {
    (info.shape.len() * info.dtype.bytes()).next_multiple_of(4).max(4)
}

impl Schedule {
    pub(super) fn of(graph: &Graph, lowering: Lowering<'_>) -> Result<Self> {
        let mut work = Graph { passes: Vec::new(), ..graph.clone() };
        let mut steps = Vec::new();
        for (index, pass) in graph.passes.iter().enumerate() {
            lower(&mut work, pass, PassId(index), lowering, &mut steps)?;
        }
        let mut schedule = Self {
            graph: graph.id,
            label: graph.label.clone(),
            slot_of: vec![None; work.tensors.len()],
            spans: vec![None; work.tensors.len()],
            tensors: work.tensors,
            steps_of_pass: (0..graph.passes.len())
                .map(|p| steps.iter().filter(|s: &&Step| s.pass.0 == p).count())
                .collect(),
            steps,
            dropped: Vec::new(),
            slots: Vec::new(),
        };
        schedule.check_reads()?;
        schedule.prune(graph.passes.len());
        schedule.find_spans();
        schedule.share_slots();
        Ok(schedule)
    }

    /// Parameters of every step of one recorded pass, by [`Step::ordinal`], if its parameters were `params`.
    ///
    /// Errors: [`Error::Recompile`] if kernels, shapes or compile-time parameters would differ.
    pub(crate) fn relower(
        &self,
        graph: &Graph,
        pass: PassId,
        params: &[u8],
        lowering: Lowering<'_>,
    ) -> Result<Vec<Vec<u8>>> {
        let recorded = graph.passes.get(pass.0).ok_or_else(|| Error::Tensor {
            tensor: format!("pass {}", pass.0),
            reason: format!("is not one of the graph \"{}\"", graph.label),
        })?;
        let different =
            |reason: &str| Error::Recompile { kernel: recorded.kernel.name.into(), reason: reason.into() };
        if params.len() != recorded.params.len() {
            return Err(different("the parameter struct of another kernel"));
        }
        (recorded.kernel.check)(&recorded.dims, params).map_err(|m| {
            Error::value(recorded.kernel.name, "valid parameters", m, "see `wgattn eval --describe`")
        })?;
        let mut work = Graph { passes: Vec::new(), ..graph.clone() };
        let mut steps = Vec::new();
        lower(&mut work, &Pass { params: params.to_vec(), ..recorded.clone() }, pass, lowering, &mut steps)?;
        if steps.len() != self.steps_of_pass[pass.0] {
            return Err(different("another number of steps"));
        }
        for old in self.steps.iter().filter(|s| s.pass == pass) {
            let new = &steps[old.ordinal];
            if old.kernel.name != new.kernel.name || old.dims != new.dims {
                return Err(different("other steps"));
            }
            if old.fixed_params() != new.fixed_params() {
                return Err(different("a compile-time parameter differs"));
            }
        }
        Ok(steps.into_iter().map(|s| s.params).collect())
    }

    /// The tensor that owns a tensor's memory, and the element at which the tensor begins in it.
    pub fn base(&self, tensor: Tensor) -> (u32, u64) {
        self.tensors[tensor.id as usize].base.unwrap_or((tensor.id, 0))
    }

    fn base_id(&self, tensor: Tensor) -> usize {
        self.base(tensor).0 as usize
    }

    fn check_reads(&self) -> Result<()> {
        let mut written = vec![false; self.tensors.len()];
        for step in &self.steps {
            for tensor in step.reads() {
                let id = self.base_id(tensor);
                let info = &self.tensors[id];
                if !matches!(info.kind, Kind::Input | Kind::Constant) && !written[id] {
                    let (tensor, reader) = (info.name.clone(), step.kernel.name.to_string());
                    return Err(Error::ReadBeforeWrite { tensor, reader });
                }
            }
            for tensor in step.writes() {
                written[self.base_id(tensor)] = true;
            }
        }
        match self
            .tensors
            .iter()
            .zip(&written)
            .find(|(t, w)| t.kind == Kind::Output && t.base.is_none() && !**w)
        {
            Some((t, _)) => {
                Err(Error::ReadBeforeWrite { tensor: t.name.clone(), reader: "the caller (output)".into() })
            }
            None => Ok(()),
        }
    }

    fn prune(&mut self, passes: usize) {
        let mut live: Vec<bool> = self.tensors.iter().map(|t| t.kind == Kind::Output).collect();
        let mut keep = vec![false; self.steps.len()];
        for (index, step) in self.steps.iter().enumerate().rev() {
            if step.writes().any(|t| live[self.base_id(t)]) {
                keep[index] = true;
                for tensor in step.reads() {
                    live[self.base_id(tensor)] = true;
                }
            }
        }
        let mut kept = keep.iter();
        self.steps.retain(|_| *kept.next().expect("one flag per step"));
        self.dropped = (0..passes).map(PassId).filter(|p| self.steps.iter().all(|s| s.pass != *p)).collect();
    }

    fn find_spans(&mut self) {
        for (index, step) in self.steps.iter().enumerate() {
            for tensor in step.reads().chain(step.writes()) {
                let id = self.tensors[tensor.id as usize].base.map_or(tensor.id, |(b, _)| b) as usize;
                let span = self.spans[id].get_or_insert((index, index));
                span.1 = index;
            }
        }
    }

    /// Greedy by size, largest first: each transient takes the smallest slot none of whose tenants lives at the same time
    /// as it, or a new one. Lives that meet in one step overlap, so a step never reads and writes one slot. Small
    /// tensors are placed last, so they never keep a large one out of its slot.
    fn share_slots(&mut self) {
        let transient = |(id, span): (usize, &Option<(usize, usize)>)| {
            span.filter(|_| self.tensors[id].kind == Kind::Transient).map(|span| (id, span))
        };
        let mut lives: Vec<(usize, (usize, usize))> =
            self.spans.iter().enumerate().filter_map(transient).collect();
        lives.sort_by_key(|&(id, span)| (u64::MAX - device_bytes(&self.tensors[id]), span, id));
        let mut tenants: Vec<Vec<(usize, usize)>> = Vec::new();
        for (id, span) in lives {
            let bytes = device_bytes(&self.tensors[id]);
            let sharable = self.tensors[id].dtype != DType::Rgba8;
            let free = |s: &usize| tenants[*s].iter().all(|other| other.1 < span.0 || span.1 < other.0);
            // Slots were made in order of falling size, so the last free one is the smallest that fits.
            let found = if sharable { (0..tenants.len()).rev().find(free) } else { None };
            let slot = found.unwrap_or_else(|| {
                self.slots.push(Slot { bytes, tensors: Vec::new() });
                tenants.push(Vec::new());
                self.slots.len() - 1
            });
            self.slots[slot].tensors.push(id as u32);
            // A texture's slot is its own for ever.
            tenants[slot].push(if sharable { span } else { (0, usize::MAX) });
            self.slot_of[id] = Some(slot);
        }
        let spans = &self.spans;
        for slot in &mut self.slots {
            slot.tensors.sort_by_key(|&id| spans[id as usize]);
        }
    }

    /// Bytes of transients as they are allocated, whole buffers shared.
    pub fn transient_bytes(&self) -> u64 {
        self.slots.iter().map(|s| s.bytes).sum()
    }

    /// Bytes the same transients would take with a buffer each.
    pub fn transient_bytes_unshared(&self) -> u64 {
        let ids = self.slots.iter().flat_map(|s| &s.tensors);
        ids.map(|&id| device_bytes(&self.tensors[id as usize])).sum()
    }

    /// Bytes of inputs, constants and outputs.
    pub fn external_bytes(&self) -> u64 {
        let used =
            self.tensors.iter().zip(&self.spans).filter(|(t, s)| t.kind != Kind::Transient && s.is_some());
        used.map(|(t, _)| device_bytes(t)).sum()
    }
}

fn lower(
    work: &mut Graph,
    pass: &Pass,
    id: PassId,
    lowering: Lowering<'_>,
    steps: &mut Vec<Step>,
) -> Result<()> {
    let expansion = match (lowering, &pass.kernel.wgpu, &pass.kernel.cuda) {
        (Lowering::Device(caps), OnWgpu::Expand(expand), _) => Some((caps, expand)),
        (Lowering::Cuda(caps), OnWgpu::Expand(expand), OnCuda::Expand) => Some((caps, expand)),
        _ => None,
    };
    let Some((caps, expand)) = expansion else {
        let (kernel, params, args, dims) =
            (pass.kernel, pass.params.clone(), pass.args.clone(), pass.dims.clone());
        let ordinal = steps.iter().filter(|s| s.pass == id).count();
        steps.push(Step { kernel, params, args, dims, pass: id, ordinal });
        return Ok(());
    };
    let outer = std::mem::take(&mut work.passes);
    expand(&mut Expansion { graph: work, dims: &pass.dims, caps, pass })?;
    let children = std::mem::replace(&mut work.passes, outer);
    for child in &children {
        lower(work, child, id, lowering, steps)?;
    }
    Ok(())
}
