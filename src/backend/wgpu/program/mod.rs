//! A graph compiled for one device: pipelines, memory, windows, bind groups, and the commands in a host's encoder.
//!
//! Parameters and new inputs travel through a staging buffer that is made mapped and copied *inside the encoder*, so two
//! encodes before one submit each see their own values, and the queue is never written.

mod bind;
mod encode;
mod memory;
mod params;
mod record;
mod run;

use super::pipeline::{Pipeline, fits, pipeline};
use super::readback::{Origin, Ticket, row_pitch};
use super::tune::Chosen;
use super::window::{Window, fold, windows};
use super::{Core, Progress, WgpuBackend};
use crate::backend::{
    Burst, Memory, Parts, Program, StepForm, StepTime, Stopwatch, TimingSource, Timings, check_write, known,
};
use crate::error::{Error, Result};
use crate::graph::{Graph, Kind, Lowering, PassId, Schedule, Step, TensorInfo};
use crate::kernel::wgsl::{ParamWord, TEXTURE_WIDTH, UNIFORM_BYTES, compose, param_words};
use crate::kernel::{Caps, Class, Driver, OnWgpu, Variant};
use crate::tensor::{DType, HostTensor, Tensor};
use memory::*;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes between two launches' uniform blocks: the default offset alignment of WebGPU.
const PARAMS_STRIDE: u64 = 256;

/// Memory of one tensor.
#[derive(Clone, Debug)]
enum Object {
    Buffer { buffer: ::wgpu::Buffer, offset: u64, size: u64 },
    Texture { texture: ::wgpu::Texture, view: ::wgpu::TextureView },
}

impl Object {
    /// Whether a dispatch cannot use both: one buffer is either read or written, and slices of it that are both written
    /// may not overlap.
    fn collides(&self, other: &Self, both_written: bool) -> bool {
        match (self, other) {
            (
                Self::Buffer { buffer, offset, size },
                Self::Buffer { buffer: other, offset: other_offset, size: other_size },
            ) => {
                let overlap = *offset < other_offset + other_size && *other_offset < offset + size;
                buffer == other && (!both_written || overlap)
            }
            (Self::Texture { texture, .. }, Self::Texture { texture: other, .. }) => texture == other,
            _ => false,
        }
    }
}

/// A resource into which a window is copied before a dispatch.
#[derive(Clone, Debug)]
enum Stage {
    Uniform(::wgpu::Buffer),
    Texture(::wgpu::Texture, ::wgpu::TextureView),
}

#[derive(Clone, Debug)]
struct Copy {
    from: u32,
    offset: u64,
    bytes: u64,
    to: Stage,
}

#[derive(Debug)]
struct Launch {
    window: Window,
    /// The part of the window's workgroups that this dispatch does.
    groups: std::ops::Range<u64>,
    folded: [u32; 3],
    /// What the window's ports are copied into; the window's first part does that.
    copies: Vec<Copy>,
    /// The port's tensor that holds the number of workgroups.
    indirect: Option<Tensor>,
    /// Made once all launches are known, because each has its place in the block of parameters.
    bind_group: Option<::wgpu::BindGroup>,
}

impl Launch {
    /// The copies to make before this dispatch.
    fn own_copies(&self) -> &[Copy] {
        if self.groups.start == 0 { &self.copies } else { &[] }
    }

    fn count(&self) -> u64 {
        self.groups.end - self.groups.start
    }
}

#[derive(Debug)]
struct Prepared {
    variant: &'static Variant,
    /// Whether a search found it better than what the device takes by itself.
    tuned: bool,
    pipeline: Arc<Pipeline>,
    launches: Vec<Launch>,
}

/// A graph on one wgpu device.
#[derive(Debug)]
pub struct WgpuProgram {
    core: Arc<Core>,
    graph: Graph,
    schedule: Schedule,
    objects: Vec<Option<Object>>,
    steps: Vec<Prepared>,
    params: ::wgpu::Buffer,
    dummies: Vec<::wgpu::Buffer>,
    stages: HashMap<(Class, u32, usize), Stage>,
    pending: Vec<(u32, HostTensor)>,
    given: Vec<bool>,
    profiling: bool,
    choice: Choice,
    /// For every step the variant that a search found better than the device's default.
    found: Vec<Option<&'static str>>,
    /// Steps that a search had no time for.
    untried: usize,
}

impl WgpuProgram {
    pub(super) fn new(
        core: Arc<Core>,
        graph: &Graph,
        choice: Choice,
        progress: Progress<'_>,
    ) -> Result<Self> {
        core.alive()?;
        let schedule = graph.schedule(Lowering::Device(&core.caps))?;
        let count = schedule.tensors.len();
        let empty =
            core.checked("parameters", || buffer(&core, "params", 4, ::wgpu::BufferUsages::UNIFORM))?;
        let dummy = |_| {
            buffer(&core, "absent port", 16, ::wgpu::BufferUsages::STORAGE | ::wgpu::BufferUsages::COPY_SRC)
        };
        let dummies = core.checked("absent ports", || (0..8).map(dummy).collect())?;
        let mut program = Self {
            given: vec![false; count],
            objects: vec![None; count],
            steps: Vec::new(),
            params: empty,
            dummies,
            stages: HashMap::new(),
            pending: Vec::new(),
            profiling: false,
            choice,
            found: Vec::new(),
            untried: 0,
            graph: graph.clone(),
            schedule,
            core,
        };
        program.allocate()?;
        let total = program.schedule.steps.len();
        let tuner = program.core.tuner.as_ref().filter(|_| program.choice.follow == Follow::Found);
        let chosen = match tuner {
            Some(tuner) => tuner.choose(&program.core, &program.schedule, &program.choice, progress)?,
            None => Chosen { variants: vec![None; total], untried: 0 },
        };
        (program.found, program.untried) = (chosen.variants, chosen.untried);
        for index in 0..total {
            let prepared = program.prepare_step(index)?;
            progress(index + 1, total, program.schedule.steps[index].kernel.name);
            program.steps.push(prepared);
        }
        program.allocate_params()?;
        program.make_bind_groups()?;
        Ok(program)
    }

    /// The same graph with the same parameters on another device. Inputs must be written or bound again.
    ///
    /// Errors: as preparing it anew.
    pub fn rebuild(&self, backend: &WgpuBackend) -> Result<Self> {
        Self::new(Arc::clone(&backend.core), &self.graph, self.choice.clone(), &mut |_, _, _| {})
    }

    fn allocate(&mut self) -> Result<()> {
        let core = Arc::clone(&self.core);
        let mut slots: Vec<Option<::wgpu::Buffer>> = vec![None; self.schedule.slots.len()];
        let counted: Vec<u32> = self
            .schedule
            .steps
            .iter()
            .flat_map(Step::group_counts)
            .map(|t| self.schedule.base(t).0)
            .collect();
        let counting_slots: Vec<usize> =
            counted.iter().filter_map(|id| self.schedule.slot_of[*id as usize]).collect();
        for id in 0..self.schedule.tensors.len() {
            let info = self.schedule.tensors[id].clone();
            let used = self.schedule.spans[id].is_some() || (info.kind == Kind::Input && info.base.is_none());
            if !used || info.base.is_some() {
                continue;
            }
            self.objects[id] = Some(match self.schedule.slot_of[id] {
                Some(slot) if info.dtype != DType::Rgba8 => {
                    let bytes = self.schedule.slots[slot].bytes;
                    if slots[slot].is_none() {
                        let usage = indirect_usage(counting_slots.contains(&slot));
                        slots[slot] = Some(storage(&core, &format!("slot {slot}"), bytes, usage, None)?);
                    }
                    let buffer =
                        slots[slot].clone().ok_or_else(|| core.failed("memory", "a slot is missing"))?;
                    Object::Buffer { buffer, offset: 0, size: bytes }
                }
                _ => object(&core, &info, indirect_usage(counted.contains(&(id as u32))))?,
            });
            if let Some(value) = &info.constant {
                // Buffers were made with their numbers in them: a host may throw an encoder away.
                if info.dtype == DType::Rgba8 {
                    self.pending.push((id as u32, value.as_ref().clone()));
                }
                self.given[id] = true;
            }
        }
        Ok(())
    }

    fn object(&self, id: u32) -> Result<&Object> {
        self.objects[id as usize].as_ref().ok_or_else(|| Error::Tensor {
            tensor: self.schedule.tensors[id as usize].name.clone(),
            reason: "has no memory: no step that is kept touches it".into(),
        })
    }

    /// Element at which each port's tensor begins in its memory object.
    fn bases(&self, step: &Step) -> Result<Vec<u64>> {
        let base = |arg: &Option<Tensor>| {
            let Some(tensor) = arg else { return Ok(0) };
            let (id, from) = self.schedule.base(*tensor);
            Ok(match self.object(id)? {
                Object::Buffer { offset, .. } => offset / tensor.dtype().bytes() + from,
                Object::Texture { .. } => 0,
            })
        };
        step.args.iter().map(base).collect()
    }

    /// The variant that a search found, or else the first, in the driver's order of preference, that suits and fits.
    fn prepare_step(&mut self, index: usize) -> Result<Prepared> {
        let step = self.schedule.steps[index].clone();
        let OnWgpu::Shader(variants) = &step.kernel.wgpu else {
            return Err(self.core.failed(step.kernel.name, "an expansion was not expanded"));
        };
        let found = self.found[index];
        let forced = self.choice.variants.clone();
        let mut reason = None;
        let (first, rest): (Vec<_>, Vec<_>) =
            in_order(variants, self.core.caps.driver).partition(|v| Some(v.name) == found);
        for variant in first.into_iter().chain(rest) {
            if forced.as_deref().is_some_and(|list| !allowed(list, step.kernel.name, variant.name)) {
                continue;
            }
            match self.try_variant(&step, variant) {
                Ok(prepared) => return Ok(Prepared { tuned: Some(variant.name) == found, ..prepared }),
                Err(Refusal::Unsuitable) => {}
                Err(Refusal::Error(error @ Error::Limit { .. })) => reason = reason.or(Some(error)),
                Err(Refusal::Error(error)) => return Err(error),
            }
        }
        Err(reason.unwrap_or_else(|| Error::Unsupported {
            device: self.core.info.name.clone(),
            missing: format!(
                "no variant of {} suits {}; use another device, or the CPU",
                step.kernel.name,
                step.dims.told()
            ),
        }))
    }

    fn try_variant(
        &mut self,
        step: &Step,
        variant: &'static Variant,
    ) -> std::result::Result<Prepared, Refusal> {
        let core = Arc::clone(&self.core);
        let spec = step.kernel;
        if !is_suitable(variant, step, &core.caps) {
            return Err(Refusal::Unsuitable);
        }
        let rounds = (variant.rounds)(&step.dims);
        if rounds > core.caps.loop_rounds {
            return Err(Refusal::Error(Error::Limit {
                what: format!("loop rounds of one invocation of {}/{}", spec.name, variant.name),
                requested: rounds,
                allowed: core.caps.loop_rounds,
                remedy: "this driver cuts longer loops short; use fewer tokens per head, or another device"
                    .into(),
            }));
        }
        let present: Vec<bool> = step.args.iter().map(Option::is_some).collect();
        let composed = compose(spec, variant, &step.dims, &step.params, &present)?;
        fits(&core, &composed)?;
        let shapes: Vec<_> = step.args.iter().map(|a| a.map(|t| t.shape())).collect();
        let bases = self.bases(step)?;
        let list = windows(spec, variant, &step.params, &step.dims, &shapes, &bases, &core.caps)?;
        for (i, _) in spec.ports.iter().enumerate().filter(|(_, p)| variant.vec4.contains(&p.name)) {
            let aligned = |w: &Window| {
                w.ports[i].is_none_or(|p| p.from % 4 == 0 && p.len % 4 == 0 && p.before % 4 == 0)
            };
            if !list.iter().all(aligned) {
                return Err(Refusal::Unsuitable);
            }
        }
        let indirect = spec.ports.iter().zip(&step.args).find(|(p, _)| p.groups).and_then(|(_, arg)| *arg);
        let pipeline = pipeline(&core, &composed, self.choice.follow != Follow::Trial)?;
        let mut launches = Vec::new();
        let total: u64 = list.iter().map(|w| (variant.grid)(&w.dims, w.batches)).sum();
        for window in list {
            let groups = (variant.grid)(&window.dims, window.batches);
            let copies = self.stage(step, variant, &window)?;
            // A number of groups that the device finds by itself cannot be cut beforehand.
            let most = self.choice.most_work.filter(|_| indirect.is_none()).map_or(groups, |most| {
                let one = work_of(step) / total.max(1) as f64;
                // A quotient past 2⁶⁴ becomes the largest number, which means the same.
                if one > 0.0 { ((most / one) as u64).max(1) } else { groups }
            });
            let mut from = 0_u64;
            loop {
                let part = from..groups.min(from.saturating_add(most));
                let folded = fold(spec.name, part.end - part.start, core.caps.groups)?;
                from = part.end;
                let (window, copies) = (window.clone(), copies.clone());
                launches.push(Launch { window, groups: part, folded, copies, indirect, bind_group: None });
                if from >= groups {
                    break;
                }
            }
        }
        Ok(Prepared { variant, tuned: false, pipeline, launches })
    }

    /// Resources for the ports that the variant reads through copies.
    fn stage(
        &mut self,
        step: &Step,
        variant: &Variant,
        window: &Window,
    ) -> std::result::Result<Vec<Copy>, Refusal> {
        let mut copies = Vec::new();
        for (number, (name, class)) in variant.classes.iter().enumerate() {
            let index = step.kernel.port_index(name).unwrap_or_default();
            let (Some(tensor), Some(part)) = (step.args[index], window.ports[index]) else { continue };
            let from = self.schedule.base(tensor).0;
            let (offset, bytes) = staged(*class, part.from, part.len, tensor.dtype());
            match self.object(from)? {
                Object::Buffer { buffer, .. } if offset + bytes <= buffer.size() => {}
                // A host's buffer that ends within a texel.
                _ => return Err(Refusal::Unsuitable),
            }
            let rows =
                u32::try_from(bytes.div_ceil(u64::from(TEXTURE_WIDTH) * 16)).unwrap_or(u32::MAX).max(1);
            let key = (*class, if *class == Class::Texture { rows.next_power_of_two() } else { 0 }, number);
            let core = Arc::clone(&self.core);
            let to = match self.stages.get(&key) {
                Some(stage) => stage.clone(),
                None => {
                    let stage = core.checked("staging", || make_stage(&core, key.0, key.1))?;
                    self.stages.insert(key, stage.clone());
                    stage
                }
            };
            copies.push(Copy { from, offset, bytes, to });
        }
        Ok(copies)
    }

    fn allocate_params(&mut self) -> Result<()> {
        let launches: usize = self.steps.iter().map(|s| s.launches.len()).sum();
        let bytes = (launches as u64 * PARAMS_STRIDE).max(PARAMS_STRIDE);
        if bytes > self.core.caps.buffer {
            return Err(Error::Limit {
                what: "uniform blocks of all dispatches".into(),
                requested: bytes,
                allowed: self.core.caps.buffer,
                remedy: "split the graph".into(),
            });
        }
        let core = Arc::clone(&self.core);
        self.params =
            core.checked("parameters", || buffer(&core, "params", bytes, ::wgpu::BufferUsages::UNIFORM))?;
        Ok(())
    }

    fn make_bind_groups(&mut self) -> Result<()> {
        let mut number = 0;
        for index in 0..self.steps.len() {
            let step = self.schedule.steps[index].clone();
            for launch in 0..self.steps[index].launches.len() {
                let made = self.bind_group(&step, index, launch, number)?;
                self.steps[index].launches[launch].bind_group = Some(made);
                number += 1;
            }
        }
        Ok(())
    }

    fn bind_group(&self, step: &Step, index: usize, launch: usize, number: u64) -> Result<::wgpu::BindGroup> {
        let prepared = &self.steps[index];
        let entries = self.entries(step, index, &prepared.launches[launch], number)?;
        self.core.checked(step.kernel.name, || {
            self.core.device.create_bind_group(&::wgpu::BindGroupDescriptor {
                label: Some(step.kernel.name),
                layout: &prepared.pipeline.layout,
                entries: &entries,
            })
        })
    }

    /// What a launch binds; its uniform block is the `number`th.
    fn entries<'a>(
        &'a self,
        step: &Step,
        index: usize,
        launch: &'a Launch,
        number: u64,
    ) -> Result<Vec<::wgpu::BindGroupEntry<'a>>> {
        let prepared = &self.steps[index];
        let block = param_words(step.kernel).len() as u64 * 4;
        let mut entries = Vec::new();
        let mut spare = self.dummies.iter();
        for binding in &prepared.pipeline.composed.bindings {
            let resource = match binding.port {
                None => part_of(&self.params, number * PARAMS_STRIDE, block),
                Some(port) => match step.args[port] {
                    None => {
                        let dummy = spare.next().ok_or_else(|| {
                            self.core.failed(step.kernel.name, "more absent ports than dummies")
                        })?;
                        part_of(dummy, 0, 16)
                    }
                    Some(tensor) => self.resource(step, port, tensor, prepared.variant, launch)?,
                },
            };
            entries.push(::wgpu::BindGroupEntry { binding: binding.number, resource });
        }
        Ok(entries)
    }

    fn resource<'a>(
        &'a self,
        step: &Step,
        port: usize,
        tensor: Tensor,
        variant: &Variant,
        launch: &'a Launch,
    ) -> Result<::wgpu::BindingResource<'a>> {
        let name = step.kernel.ports[port].name;
        if let Some(staged) = variant.classes.iter().position(|(n, _)| *n == name) {
            let place = variant.classes[..staged]
                .iter()
                .filter(|(n, _)| step.kernel.port_index(n).is_some_and(|i| step.args[i].is_some()));
            return Ok(match &launch.copies[place.count()].to {
                Stage::Uniform(buffer) => part_of(buffer, 0, UNIFORM_BYTES),
                Stage::Texture(_, view) => ::wgpu::BindingResource::TextureView(view),
            });
        }
        match (self.object(self.schedule.base(tensor).0)?, launch.window.ports[port]) {
            (Object::Texture { view, .. }, _) => Ok(::wgpu::BindingResource::TextureView(view)),
            (Object::Buffer { buffer, size, offset }, Some(part)) => {
                let (start, _) = self.aligned(tensor, part.from);
                let end =
                    ((part.from + part.len) * tensor.dtype().bytes()).next_multiple_of(4).min(offset + size);
                Ok(part_of(buffer, start, end.saturating_sub(start).max(4)))
            }
            _ => Err(self.core.failed(step.kernel.name, format!("port `{name}` has no part"))),
        }
    }

    /// Byte at which a binding may begin, and the element's distance from it.
    fn aligned(&self, tensor: Tensor, element: u64) -> (u64, u64) {
        let bytes = element * tensor.dtype().bytes();
        let start =
            bytes / u64::from(self.core.caps.storage_alignment) * u64::from(self.core.caps.storage_alignment);
        (start, (bytes - start) / tensor.dtype().bytes())
    }

    /// Kernel and variant of every step in order.
    pub fn variants(&self) -> Vec<(&'static str, &'static str)> {
        self.schedule.steps.iter().zip(&self.steps).map(|(s, p)| (s.kernel.name, p.variant.name)).collect()
    }

    /// Number of dispatches in one encode.
    pub fn dispatches(&self) -> usize {
        self.steps.iter().flat_map(|s| &s.launches).filter(|l| !l.groups.is_empty()).count()
    }
}

/// What a backend was asked to do otherwise than by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// Variants to use whatever the driver prefers.
    pub(crate) variants: Option<String>,
    /// Most operations of one dispatch; larger ones are cut into parts of whole workgroups.
    pub(crate) most_work: Option<f64>,
    /// What to do about variants that are chosen by measuring.
    pub(crate) follow: Follow,
}

/// What a program does about variants that are chosen by measuring, on a device that is tuned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Follow {
    /// Takes what was found, and searches for what was not.
    #[default]
    Found,
    /// Takes what the device takes by itself.
    Defaults,
    /// The same, and is a trial of a search: its pipelines are not kept.
    Trial,
}

/// Variants in a driver's order of preference.
pub(crate) fn in_order(
    variants: &'static [Variant],
    driver: Driver,
) -> impl Iterator<Item = &'static Variant> {
    let is_first = move |v: &&'static Variant| v.preferred_on.contains(&driver);
    variants.iter().filter(is_first).chain(variants.iter().filter(move |v| !is_first(v)))
}

/// Whether a variant can do a step on a device, by what it says of itself.
pub(crate) fn is_suitable(variant: &Variant, step: &Step, caps: &Caps) -> bool {
    (variant.suits)(&step.dims, &step.params, caps) && variant.subgroup_lanes <= caps.subgroup_lanes
}

/// About how many operations a step does, the words that it moves counted as what could be computed meanwhile.
fn work_of(step: &Step) -> f64 {
    let cost = (step.kernel.cost)(&step.dims, &step.params);
    cost.flop + run::EXP_WORK * cost.exp + run::WORD_WORK * cost.bytes / 4.0
}

/// Whether a list such as `matmul/plain,kernel_matrix/tile64` lets a kernel use a variant; kernels it does not name are
/// free.
pub(crate) fn allowed(list: &str, kernel: &str, variant: &str) -> bool {
    let mut of_kernel = list
        .split(',')
        .filter_map(|entry| entry.trim().split_once('/'))
        .filter(|(k, _)| *k == kernel)
        .peekable();
    of_kernel.peek().is_none() || of_kernel.any(|(_, v)| v == variant)
}

/// Bytes of a buffer to copy for elements of a port: texels are whole, so a copy may begin and end a little outside.
fn staged(class: Class, from: u64, len: u64, dtype: DType) -> (u64, u64) {
    if class != Class::Texture {
        return (from * dtype.bytes(), len * dtype.bytes());
    }
    let first = from / 4 * 4;
    (first * 4, (from + len - first).next_multiple_of(4) * 4)
}

enum Refusal {
    Unsuitable,
    Error(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
