//! The crate's one error type: every variant names what failed, where, what was expected and what was found.

use crate::numbers::shortest;
use crate::tensor::{DType, Shape};
use crate::words::plural;
use std::panic::Location;

/// Result of everything in this crate that a caller can make fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in one line that names the place, the numbers and, where there is one, the remedy.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor's shape does not fit a port.
    #[error("{kernel}: port `{port}` wants {expected}, got {got} ({at})")]
    Shape {
        /// Kernel whose port was given the tensor.
        kernel: String,
        /// Port name.
        port: String,
        /// Dimension names with the sizes already known, such as `[b=1, h=4, n, d=32]`.
        expected: String,
        /// The shape that was given.
        got: Shape,
        /// Where in the caller's code the pass was recorded.
        at: &'static Location<'static>,
    },
    /// A tensor's element type does not fit a port.
    #[error("{kernel}: port `{port}` wants {expected} elements, got {got} ({at})")]
    DType {
        /// Kernel whose port was given the tensor.
        kernel: String,
        /// Port name.
        port: String,
        /// Element type the port declares.
        expected: DType,
        /// Element type that was given.
        got: DType,
        /// Where in the caller's code the pass was recorded.
        at: &'static Location<'static>,
    },
    /// A required port was left out, or an argument count is off.
    #[error("{kernel}: {message} ({at})")]
    Arguments {
        /// Kernel being recorded.
        kernel: String,
        /// What is missing or superfluous.
        message: String,
        /// Where in the caller's code the pass was recorded.
        at: &'static Location<'static>,
    },
    /// A parameter's value is out of its range.
    #[error("{what}: expected {expected}, got {got}; {remedy}")]
    Value {
        /// The parameter and whose it is.
        what: String,
        /// The range or set it must lie in.
        expected: String,
        /// The value that was given.
        got: String,
        /// How to put it right.
        remedy: String,
    },
    /// A pass reads a tensor that nothing has written.
    #[error("tensor `{tensor}` is read by {reader} before anything writes it")]
    ReadBeforeWrite {
        /// Name of the tensor.
        tensor: String,
        /// The kernel that reads it.
        reader: String,
    },
    /// A tensor handle belongs to another graph, or names no input or output of this program.
    #[error("tensor `{tensor}`: {reason}")]
    Tensor {
        /// Name of the tensor, or its number where it has no name here.
        tensor: String,
        /// What is wrong with the use made of it.
        reason: String,
    },
    /// Host data does not have the shape or the values a tensor needs.
    #[error("data for `{tensor}`: expected {expected}, got {got}")]
    Data {
        /// Name of the tensor.
        tensor: String,
        /// What the tensor needs.
        expected: String,
        /// What was given.
        got: String,
    },
    /// A NaN or an infinity where a finite number is needed.
    #[error(
        "data for `{tensor}`: element {index} is not finite (bits {bits:#010x}); {} such {}",
        .count,
        plural(*.count, "element", "elements")
    )]
    NotFinite {
        /// Name of the tensor or port.
        tensor: String,
        /// First offending element, counted in row-major order.
        index: usize,
        /// Its bit pattern as f32.
        bits: u32,
        /// How many elements are not finite.
        count: usize,
    },
    /// WGSL that does not parse or validate.
    #[error("shader of {kernel}: {report}")]
    Shader {
        /// Kernel and variant.
        kernel: String,
        /// The compiler's report with file and line.
        report: String,
    },
    /// A shader and its Rust description disagree.
    #[error("shader of {kernel}: `{port}` {reason}")]
    Interface {
        /// Kernel and variant.
        kernel: String,
        /// Binding or parameter field.
        port: String,
        /// The disagreement.
        reason: String,
    },
    /// One slice of the work does not fit the device.
    #[error("{what}: needs {requested}, the device allows {allowed}; {remedy}")]
    Limit {
        /// The limit and who meets it.
        what: String,
        /// What the work needs.
        requested: u64,
        /// What the device allows.
        allowed: u64,
        /// How to make it fit.
        remedy: String,
    },
    /// The device cannot do what was asked.
    #[error("{device}: {missing}")]
    Unsupported {
        /// The device.
        device: String,
        /// What it lacks, and what to do instead.
        missing: String,
    },
    /// No device of the asked kind or name.
    #[error("device {asked:?} cannot be taken: {reason}")]
    NoDevice {
        /// What the user asked for.
        asked: String,
        /// What there is, and how to ask for it.
        reason: String,
    },
    /// Compiled without a feature.
    #[error("wgattn was built without the `{feature}` feature; rebuild with --features {feature}")]
    NotBuilt {
        /// The Cargo feature.
        feature: &'static str,
    },
    /// The device was lost; rebuild the programs on a new one.
    #[error(
        "{device}: the device was lost ({reason}); start again, or in a program of yours open the device anew and rebuild graphs with `rebuild`"
    )]
    DeviceLost {
        /// The device.
        device: String,
        /// The driver's reason, if it gave one.
        reason: String,
    },
    /// The driver or wgpu refused an operation.
    #[error("{device}: {context}: {message}")]
    Device {
        /// The device.
        device: String,
        /// Which kernel or operation.
        context: String,
        /// The driver's message.
        message: String,
    },
    /// A parameter change that needs another list of passes.
    #[error("{kernel}: the new parameters need another schedule ({reason}); compile the graph again")]
    Recompile {
        /// Kernel whose parameters were set.
        kernel: String,
        /// What differs.
        reason: String,
    },
}

/// A value as errors show it: numbers in their shortest form, `1e300` instead of 301 digits, everything else as it is displayed.
pub trait Told {
    /// The words.
    fn told(&self) -> String;
}

impl<T: Told + ?Sized> Told for &T {
    fn told(&self) -> String {
        (**self).told()
    }
}

macro_rules! told {
    ($form:path: $($kind:ty),+) => {
        $(impl Told for $kind {
            fn told(&self) -> String {
                $form(self)
            }
        })+
    };
}

told!(ToString::to_string: str, String, bool, u8, u16, u32, u64, usize, i32, i64, isize, Shape, DType);
told!(shortest: f32, f64);

impl Error {
    /// A parameter out of range: `what` names it, `expected` its range, `remedy` the way out.
    pub fn value(
        what: impl Into<String>,
        expected: impl Into<String>,
        got: impl Told,
        remedy: impl Into<String>,
    ) -> Self {
        Self::Value { what: what.into(), expected: expected.into(), got: got.told(), remedy: remedy.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_are_told_in_a_few_letters() {
        for (got, told) in [(1e300, "1e300"), (-2.5e-9, "-2.5e-9"), (0.5, "0.5"), (f64::NAN, "NaN")] {
            let message = Error::value("x", "1", got, "correct it").to_string();
            assert_eq!(message, format!("x: expected 1, got {told}; correct it"));
        }
        // Counts keep their digits.
        let message = Error::value("x", "fewer", 12_345_678_u32, "take fewer").to_string();
        assert!(message.contains("got 12345678;"), "{message}");
    }
}
