//! Does a device compute what it should? Every test case of every kernel, in every variant that suits the device, against the
//! f64 reference, with one rule of acceptance.
//!
//! An output passes when its largest error is at most [`Tolerance::factor`](crate::kernel::Tolerance::factor) times that of
//! the naive f32 computation plus [`Tolerance::floor`](crate::kernel::Tolerance::floor), all relative to the largest true
//! value. The project's own parity test and `wgattn conformance` both judge by [`Expected::judge`].

#[cfg(feature = "cli")]
mod dump;
#[cfg(feature = "cli")]
mod folder;
#[cfg(feature = "cli")]
mod record;
#[cfg(feature = "cli")]
mod report;
mod suite;
#[cfg(all(feature = "cli", feature = "wgpu"))]
mod web;
mod workers;

#[cfg(feature = "cli")]
pub use dump::Dump;
#[cfg(feature = "cli")]
pub use folder::check_folder;
#[cfg(feature = "cli")]
pub use report::{Document, SCHEMA_VERSION, text};
pub use suite::{Device, Finished, Keep, MOST_CASE_SECONDS, Open, Outcome, Row, Tally, Watcher, select};
#[cfg(all(feature = "cli", feature = "wgpu"))]
pub use web::{Page, page};

use crate::backend::recording::{Recording, Written};
use crate::backend::{Backend, Program, StepForm};
use crate::error::Result;
use crate::kernel::case::{Concrete, Deviation, deviation};
use crate::kernel::{Access, Caps, Case, KernelSpec, Library, OnWgpu, Port, Variant};
use crate::tensor::{Dims, HostTensor, Tensor};
use crate::words::counted;

/// What one output of a case must be.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its place among the kernel's ports.
    pub index: usize,
    /// The port.
    pub port: &'static Port,
    /// The f64 reference.
    pub truth: HostTensor,
    /// Largest error of the naive f32 computation.
    pub naive: f64,
    /// Largest error that passes.
    pub allowed: f64,
}

/// A case with its inputs and what must come of them.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Kernel, parameters and inputs.
    pub concrete: Concrete,
    /// Outputs that are compared. What a backend measures of itself is not.
    pub outputs: Vec<Wanted>,
}

impl Expected {
    /// Computes both references of a case.
    ///
    /// Errors: whatever the references report.
    pub fn of(spec: &'static KernelSpec, case: &Case) -> Result<Self> {
        let concrete = Concrete::of(spec, case)?;
        let (truth, naive) = (concrete.truth()?, concrete.naive()?);
        let mut outputs = Vec::new();
        for (index, (port, (truth, naive))) in spec.ports.iter().zip(truth.into_iter().zip(naive)).enumerate()
        {
            let (Some(truth), Some(naive)) = (truth, naive) else { continue };
            if port.access == Access::Write && !port.diagnostic {
                let naive = deviation(&naive, &truth)?.error;
                let allowed = spec.tolerance.factor * naive + spec.tolerance.floor;
                outputs.push(Wanted { index, port, truth, naive, allowed });
            }
        }
        Ok(Self { concrete, outputs })
    }

    /// Judges results, one for each of [`Self::outputs`] in order.
    ///
    /// Errors: [`Error::Data`](crate::Error::Data) for results of other shapes.
    pub fn judge(&self, got: &[HostTensor]) -> Result<Vec<Judged>> {
        let tolerance = &self.concrete.spec.tolerance;
        let one = |(wanted, got): (&Wanted, &HostTensor)| {
            let found = deviation(got, &wanted.truth)?;
            let (port, naive, allowed) = (wanted.port.name, wanted.naive, wanted.allowed);
            Ok(Judged { port, found, naive, allowed, factor: tolerance.factor, floor: tolerance.floor })
        };
        self.outputs.iter().zip(got).map(one).collect()
    }
}

/// One output of a run beside what it must be.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The port.
    pub port: &'static str,
    /// Its largest error, and where.
    pub found: Deviation,
    /// Largest error of the naive f32 computation.
    pub naive: f64,
    /// Largest error that passes: `factor · naive + floor`.
    pub allowed: f64,
    /// The kernel's tolerance.
    pub factor: f64,
    /// The kernel's tolerance.
    pub floor: f64,
}

impl Judged {
    /// Whether the output is as close as it must be.
    pub fn passes(&self) -> bool {
        // NaN is never within.
        self.found.error <= self.allowed
    }

    /// The error in parts of what is allowed: at most 1 where it passes; infinite where nothing is allowed and there is an
    /// error.
    pub fn share(&self) -> f64 {
        if self.found.error == 0.0 { 0.0 } else { self.found.error / self.allowed }
    }
}

impl std::fmt::Display for Judged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let relation = if self.passes() { "≤" } else { ">" };
        write!(
            f,
            "{}: error {:.3e} {relation} {:.3e} ({} × naive {:.3e} + {:.1e})",
            self.port, self.found.error, self.allowed, self.factor, self.naive, self.floor
        )?;
        match self.passes() {
            true => Ok(()),
            false => write!(
                f,
                "; element {}: got {:e}, expected {:e}",
                self.found.index, self.found.got, self.found.expected
            ),
        }
    }
}

/// Whether nothing but the truth itself passes.
#[cfg(feature = "cli")]
fn is_exact(judged: &Judged) -> bool {
    judged.allowed == 0.0
}

/// A run of a case with its results.
#[derive(Debug)]
pub struct Ran {
    /// The compiled case.
    pub program: Box<dyn Program>,
    /// Its tensors in port order.
    pub tensors: Vec<Option<Tensor>>,
    /// Results, one for each of [`Expected::outputs`].
    pub got: Vec<HostTensor>,
    /// The judgement of each.
    pub judged: Vec<Judged>,
}

impl Ran {
    /// Whether every output is as close as it must be.
    pub fn passes(&self) -> bool {
        self.judged.iter().all(Judged::passes)
    }

    /// What is known of the run once its program is gone; it is run once more for that, dispatch by dispatch.
    fn evidence(self, expected: &Expected) -> Evidence {
        let recording = self.program.recording(&inputs(expected, &self.tensors));
        let trace = match recording {
            Ok(Some(_)) => self.program.trace(),
            _ => Ok(Vec::new()),
        };
        Evidence { tensors: self.tensors, got: self.got, judged: self.judged, recording, trace }
    }
}

/// A run of a case as plain data.
#[derive(Debug)]
pub struct Evidence {
    /// Its tensors in port order.
    pub tensors: Vec<Option<Tensor>>,
    /// Results, one for each of [`Expected::outputs`].
    pub got: Vec<HostTensor>,
    /// The judgement of each.
    pub judged: Vec<Judged>,
    /// What the device was told to do; `None` where nothing is dispatched.
    pub recording: Result<Option<Recording>>,
    /// What each dispatch wrote, when it was run again.
    pub trace: Result<Vec<Vec<Written>>>,
}

/// Error that a product of less than f32 is excused for, relative to the largest true value: BF16 has eight bits.
const ROUNDED: f64 = 0.03;

impl Ran {
    /// Why an error above the tolerance says nothing against the device: products of this program are rounded to less than f32 because
    /// that was asked for by name, and the error of one is no larger than that may make it. How far it is carried where products follow
    /// each other, up to an iteration that does not come to its end, nobody can say beforehand: there it is only told. `None` where none
    /// of this is so.
    pub fn rounded_by_request(&self) -> Option<String> {
        let is_product = |form: &&StepForm| form.variant == Library::Gemm.name();
        let products = self.program.step_forms().iter().filter(is_product).count();
        if !self.program.rounds_products() || products == 0 {
            return None;
        }
        excused(&self.judged, if products == 1 { ROUNDED } else { f64::INFINITY })
    }
}

/// What to say of errors up to `most` that products of less than f32 may have; `None` of larger ones.
fn excused(judged: &[Judged], most: f64) -> Option<String> {
    let worst = judged.iter().map(|j| j.found.error).fold(0.0, f64::max);
    // The largest of some numbers and NaN is one of the numbers.
    let all = judged.iter().all(|j| j.found.error <= most);
    all.then(|| format!("products are rounded by request: error {worst:.1e} of the largest value"))
}

/// Runs a case on a backend and judges what comes out.
///
/// Errors: whatever compiling, running or reading reports. A wrong result is no error: see [`Ran::passes`].
pub fn check(backend: &dyn Backend, expected: &Expected) -> Result<Ran> {
    let (graph, _, tensors) = expected.concrete.graph()?;
    let mut program = backend.compile(&graph)?;
    for (tensor, input) in inputs(expected, &tensors) {
        program.write(tensor, input)?;
    }
    program.run()?;
    let tensor = |wanted: &Wanted| tensors[wanted.index].expect("what has a reference has a tensor");
    let got = expected.outputs.iter().map(|w| program.read(tensor(w))).collect::<Result<Vec<_>>>()?;
    let judged = expected.judge(&got)?;
    Ok(Ran { program, tensors, got, judged })
}

/// Tensors that are given numbers, with the numbers.
fn inputs<'a>(expected: &'a Expected, tensors: &[Option<Tensor>]) -> Vec<(Tensor, &'a HostTensor)> {
    let given = tensors.iter().zip(&expected.concrete.inputs);
    given.filter_map(|(tensor, input)| Some(((*tensor)?, input.as_ref()?))).collect()
}

/// One way to run a case on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The variant to hold the kernel to; `None` where there is nothing to choose.
    pub variant: Option<&'static str>,
    /// What the device lacks for it.
    pub lacks: Option<String>,
}

/// The variants that could run a case on a device with these capabilities, and those that suit its shape but need what the
/// device lacks; one nameless choice where there is nothing to choose (`None`: the CPU reference; composed kernels).
pub fn choices(caps: Option<&Caps>, spec: &'static KernelSpec, case: &Case) -> Vec<Choice> {
    let nameless = Choice { variant: None, lacks: None };
    let (Some(caps), OnWgpu::Shader(list)) = (caps, &spec.wgpu) else { return vec![nameless] };
    let (dims, params) = (Dims::of(case.dims), (case.params)());
    let suits =
        |v: &Variant, caps: &Caps| (v.suits)(&dims, &params, caps) && v.subgroup_lanes <= caps.subgroup_lanes;
    let choice = |v: &'static Variant| {
        let lacks = match suits(v, caps) {
            true => None,
            false => Some(lacking(caps, &|roomier| suits(v, roomier))?),
        };
        Some(Choice { variant: Some(v.name), lacks })
    };
    let found: Vec<_> = list.iter().filter_map(choice).collect();
    match found.is_empty() {
        true => {
            let lacks = format!("none of the variants takes {} on this driver", dims.told());
            vec![Choice { variant: None, lacks: Some(lacks) }]
        }
        false => found,
    }
}

/// What would make a variant suit; `None` where more of everything would not: the shape is not for it.
fn lacking(caps: &Caps, suits: &dyn Fn(&Caps) -> bool) -> Option<String> {
    let memory = |caps: Caps| Caps { workgroup_bytes: u32::MAX, ..caps };
    let groups = |caps: Caps| Caps { subgroup_lanes: u32::MAX, ..caps };
    let rounds = |caps: Caps| Caps { loop_rounds: u64::MAX, ..caps };
    if suits(&groups(*caps)) {
        return Some("needs subgroup operations, which the device lacks".into());
    }
    if suits(&memory(*caps)) {
        return Some(format!(
            "needs more workgroup memory than the {} that the device has",
            counted(caps.workgroup_bytes, "byte", "bytes")
        ));
    }
    if suits(&rounds(*caps)) {
        return Some(format!(
            "needs loops of more than {}, after which the driver ends them",
            counted(caps.loop_rounds, "round", "rounds")
        ));
    }
    suits(&rounds(groups(memory(*caps)))).then(|| "needs more than the device's limits allow".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Driver;
    use crate::kernels::KERNELS;

    fn caps() -> Caps {
        Caps {
            driver: Driver::Gpu,
            workgroup_bytes: 16_384,
            invocations: 256,
            storage_binding: 128 << 20,
            buffer: 256 << 20,
            storage_buffers: 8,
            texture_rows: 8192,
            storage_alignment: 256,
            groups: 65_535,
            loop_rounds: u64::MAX,
            subgroup_lanes: 8,
            memory_budget: 192 << 20,
        }
    }

    #[test]
    fn a_variant_that_the_device_has_no_memory_for_is_named_with_the_reason() {
        let tight = Caps { workgroup_bytes: 64, subgroup_lanes: 0, ..caps() };
        let all = |caps: &Caps| -> Vec<Choice> {
            let of = |spec: &&'static KernelSpec| {
                spec.cases.iter().flat_map(|case| choices(Some(caps), spec, case)).collect::<Vec<_>>()
            };
            KERNELS.iter().flat_map(of).collect()
        };
        let (roomy, tight) = (all(&caps()), all(&tight));
        let lacking = |list: &[Choice]| list.iter().filter(|c| c.lacks.is_some()).count();
        assert!(lacking(&tight) > lacking(&roomy), "{} and {}", lacking(&tight), lacking(&roomy));
        let memory = |c: &&Choice| c.lacks.as_ref().is_some_and(|why| why.contains("workgroup memory"));
        let one = tight.iter().find(memory).expect("some kernel wants more than 64 bytes");
        assert!(one.variant.is_some(), "{one:?}");
    }

    #[test]
    fn the_reference_has_nothing_to_choose() {
        let spec = KERNELS[0];
        assert_eq!(choices(None, spec, &spec.cases[0]), [Choice { variant: None, lacks: None }]);
    }

    fn judged(error: f64) -> Judged {
        let found = Deviation { error, index: 0, got: 0.0, expected: 0.0 };
        Judged { port: "out", found, naive: 0.0, allowed: 0.0, factor: 0.0, floor: 0.0 }
    }

    #[test]
    fn rounding_of_one_product_excuses_small_errors_only() {
        let of = |errors: &[f64]| excused(&errors.iter().map(|e| judged(*e)).collect::<Vec<_>>(), ROUNDED);
        assert!(of(&[1e-3, 4e-4]).is_some_and(|told| told.contains("1.0e-3")));
        for bad in [0.1, f64::NAN, f64::INFINITY] {
            assert_eq!(of(&[1e-3, bad]), None, "{bad}");
        }
        assert_eq!(excused(&[judged(f64::NAN)], f64::INFINITY), None);
    }

    #[test]
    fn an_error_that_is_no_number_never_passes() {
        assert!(judged(0.0).passes() && judged(0.0).share() == 0.0);
        for bad in [f64::NAN, f64::INFINITY, 1e-30] {
            assert!(!judged(bad).passes(), "{bad}");
        }
        assert!(judged(1e-30).share().is_infinite() && judged(1e-30).to_string().contains("element 0"));
    }
}
