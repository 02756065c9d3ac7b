//! The mask operator, and combinations of masks that stay fast.
//!
//! Fast masks are closed under sums, scaling of rows and columns, block diagonals, borders of global tokens, and the Hadamard
//! product with a matrix of low rank. The Hadamard product of two arbitrary fast masks is *not* fast: [`hadamard`] says so, and
//! [`Dense`] is there for whoever wants N² all the same.

mod combined;

use super::table::RelativeTable;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernels::linalg::matmul;
use crate::kernels::mask::grid::Grid;
use crate::kernels::mask::{toeplitz_product, toeplitz_spectrum};
use crate::tensor::{DType, HostTensor, Tensor};
pub use combined::{
    BlockDiagonal, LowRank, OneHead, Scaled, Sum, attend, attend_with_floor, bordered, hadamard,
};
use std::fmt::Debug;
use std::sync::Arc;

/// What kind of error a product has beyond rounding of single terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exactness {
    /// Sums of non-negative terms only: every entry keeps its relative accuracy.
    Relative,
    /// Exact but for noise of the size of the largest entry, as transforms have: small entries next to large ones lose digits.
    Noise,
}

/// How the gradient with respect to a mask's own numbers is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterGradient {
    /// The mask has no numbers to learn.
    None,
    /// By the formula, once gradients are recorded.
    Declared(&'static str),
}

/// A mask M `[n, n]` per head, row = query, column = key, known by what it does to channels.
pub trait MaskOperator: Debug + Send + Sync {
    /// One line for plans and messages.
    fn describe(&self) -> String;

    /// Tokens n.
    fn tokens(&self) -> u32;

    /// Masks: 1 is shared by all heads.
    fn heads(&self) -> u32;

    /// The definition: weight of key `j` for query `i`.
    fn weight(&self, head: u32, i: u32, j: u32) -> f64;

    /// Error class of [`Self::apply`].
    fn exactness(&self) -> Exactness;

    /// Floating-point operations of one product with one channel.
    fn flop(&self) -> f64;

    /// Records y = M x for x `[b, h, n, c]`.
    ///
    /// Errors: another number of tokens or heads.
    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor>;

    /// Records y = Mᵀ x, which gradients need: dD = Mᵀ dY.
    ///
    /// Errors: as [`Self::apply`].
    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor>;

    /// How its own numbers would be learned.
    fn parameter_gradient(&self) -> ParameterGradient;

    /// Whether the weights depend on the position alone, as a table.
    fn table(&self) -> Option<&RelativeTable> {
        None
    }

    /// The factors, where the mask is a matrix of low rank.
    fn low_rank(&self) -> Option<&LowRank> {
        None
    }

    /// All weights of one head `[n, n]`: the oracle, for small n.
    fn dense(&self, head: u32) -> Vec<f64> {
        let n = self.tokens();
        (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| self.weight(head, i, j)).collect()
    }
}

/// A shared mask.
pub type SharedMask = Arc<dyn MaskOperator>;

pub(super) fn check(mask: &dyn MaskOperator, x: Tensor) -> Result<()> {
    let shape = x.shape();
    let fits = shape.dims().len() == 4
        && x.dim(2) == mask.tokens()
        && (mask.heads() == 1 || x.dim(1) == mask.heads());
    if fits {
        return Ok(());
    }
    let heads = if mask.heads() == 1 { "heads".to_string() } else { mask.heads().to_string() };
    Err(Error::value(
        format!("channels of the mask {}", mask.describe()),
        format!("[batch, {heads}, {}, channels]", mask.tokens()),
        shape,
        "make the mask for the tokens and heads it is used on",
    ))
}

/// Weights by relative position, multiplied by FFT.
#[derive(Clone, Debug)]
pub struct Toeplitz(pub RelativeTable);

impl Toeplitz {
    fn record(&self, graph: &mut Graph, x: Tensor, transpose: bool) -> Result<Tensor> {
        check(self, x)?;
        let table = graph.constant("mask table", self.0.tensor()?);
        let out = graph.transient("M x", x.shape(), DType::F32);
        let grid = Grid { sides: self.0.sides(), torus: false, transpose };
        graph.pass(
            &toeplitz_product::SPEC,
            &toeplitz_spectrum::Params::of(&grid),
            &[Some(x), Some(table), Some(out)],
        )?;
        Ok(out)
    }
}

impl MaskOperator for Toeplitz {
    fn describe(&self) -> String {
        let sides: Vec<String> = self.0.sides().iter().filter(|n| **n > 1).map(u32::to_string).collect();
        format!(
            "table of relative positions on {} tokens",
            if sides.is_empty() { "1".into() } else { sides.join(" × ") }
        )
    }

    fn tokens(&self) -> u32 {
        self.0.tokens()
    }

    fn heads(&self) -> u32 {
        self.0.heads()
    }

    fn weight(&self, head: u32, i: u32, j: u32) -> f64 {
        f64::from(self.0.weight(head, i, j))
    }

    fn exactness(&self) -> Exactness {
        Exactness::Noise
    }

    fn flop(&self) -> f64 {
        let padded: f64 =
            self.0.sides().iter().map(|&n| f64::from((2 * n - 1).next_power_of_two())).product();
        // Two real channels share a complex transform there and back.
        5.0 * padded * padded.log2().max(1.0) + 3.0 * padded
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, false)
    }

    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, true)
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        ParameterGradient::Declared(
            "df[o] = Σ_c Σ_{i−j=o} dY_ic D_jc: a cross-correlation summed over channels, by the same FFT",
        )
    }

    fn table(&self) -> Option<&RelativeTable> {
        Some(&self.0)
    }
}

/// A mask as a stored matrix `[heads, n, n]`: N² memory and time, for whoever asks for it.
#[derive(Clone, Debug)]
pub struct Dense {
    heads: u32,
    tokens: u32,
    weights: Vec<f32>,
}

impl Dense {
    /// A mask from its matrices, row = query.
    ///
    /// Errors: another number of weights; NaN, infinite or negative ones.
    pub fn new(heads: u32, tokens: u32, weights: Vec<f32>) -> Result<Self> {
        let expected = u64::from(heads) * u64::from(tokens) * u64::from(tokens);
        if heads == 0 || weights.len() as u64 != expected {
            let got = format!("{} weights", weights.len());
            let wanted = format!("{heads} × {tokens} × {tokens} = {expected} weights");
            return Err(Error::value("matrix of a mask", wanted, got, "give one row per query"));
        }
        if let Some(at) = weights.iter().position(|x| !(x.is_finite() && *x >= 0.0)) {
            let n = tokens as usize;
            let what = format!("weight of query {}, key {} of head {}", at / n % n, at % n, at / n / n);
            return Err(Error::value(
                what,
                "a finite number of at least 0",
                weights[at],
                "use 0 for what must not be seen",
            ));
        }
        Ok(Self { heads, tokens, weights })
    }

    /// Any mask written out: the announced dense path of combinations that are not fast.
    ///
    /// Errors: weights that are negative or not finite.
    pub fn of(mask: &dyn MaskOperator) -> Result<Self> {
        let weights = (0..mask.heads()).flat_map(|h| mask.dense(h)).map(|x| x as f32).collect();
        Self::new(mask.heads(), mask.tokens(), weights)
    }

    fn record(&self, graph: &mut Graph, x: Tensor, transpose: u32) -> Result<Tensor> {
        check(self, x)?;
        let n = self.tokens;
        let matrix =
            graph.constant("mask matrix", HostTensor::f32([1, self.heads, n, n], self.weights.clone())?);
        let params = matmul::Params { transpose_a: transpose, ..Default::default() };
        matmul::record(graph, "M x", matmul::Inputs::new(matrix, x), params)
    }
}

impl MaskOperator for Dense {
    fn describe(&self) -> String {
        format!("stored matrix of {} × {} weights", self.tokens, self.tokens)
    }

    fn tokens(&self) -> u32 {
        self.tokens
    }

    fn heads(&self) -> u32 {
        self.heads
    }

    fn weight(&self, head: u32, i: u32, j: u32) -> f64 {
        let (n, head) = (self.tokens as usize, if self.heads == 1 { 0 } else { head as usize });
        f64::from(self.weights[(head * n + i as usize) * n + j as usize])
    }

    fn exactness(&self) -> Exactness {
        Exactness::Relative
    }

    fn flop(&self) -> f64 {
        2.0 * f64::from(self.tokens) * f64::from(self.tokens)
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, 0)
    }

    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, 1)
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        ParameterGradient::Declared("dM_ij = Σ_c dY_ic D_jc")
    }
}
