//! Masks made of masks: sums, scaled rows and columns, blocks, borders, and what of Hadamard products is fast; and attention under any
//! of them.

use super::{Exactness, MaskOperator, ParameterGradient, SharedMask, Toeplitz, check};
use crate::attention::Masks;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernel::NoParams;
use crate::kernels::attention::exact_attention::head;
use crate::kernels::elementwise::weighted_sum;
use crate::kernels::linalg::{matmul, row_affine, scale_rows};
use crate::kernels::linear::{append_one, contract_rows, divide_rows, outer_rows};
use crate::tensor::{DType, HostTensor, Tensor};
use std::fmt::Debug;
use std::sync::Arc;

/// The sum of masks.
#[derive(Clone, Debug)]
pub struct Sum(Vec<SharedMask>);

impl Sum {
    /// M₁ + M₂ + …
    ///
    /// Errors: no mask, or masks of other tokens or heads.
    pub fn new(masks: Vec<SharedMask>) -> Result<Self> {
        let Some(first) = masks.first() else {
            return Err(Error::value("sum of masks", "at least one", "none", "add a mask"));
        };
        let heads = masks.iter().map(|m| m.heads()).max().unwrap_or(1);
        let odd = masks.iter().find(|m| m.tokens() != first.tokens() || ![1, heads].contains(&m.heads()));
        match odd {
            None => Ok(Self(masks)),
            Some(odd) => Err(Error::value(
                "sum of masks",
                format!("{} tokens in each, and 1 head or {heads}", first.tokens()),
                format!("{} tokens and {} heads in {}", odd.tokens(), odd.heads(), odd.describe()),
                "make all masks for the same tokens",
            )),
        }
    }

    fn record(
        &self,
        graph: &mut Graph,
        x: Tensor,
        one: impl Fn(&dyn MaskOperator, &mut Graph) -> Result<Tensor>,
    ) -> Result<Tensor> {
        check(self, x)?;
        let mut sum: Option<Tensor> = None;
        for mask in &self.0 {
            let part = one(mask.as_ref(), graph)?;
            sum = Some(match sum {
                None => part,
                Some(before) => add(graph, "sum of masks", before, part)?,
            });
        }
        sum.ok_or_else(|| Error::value("sum of masks", "at least one", "none", "add a mask"))
    }
}

impl MaskOperator for Sum {
    fn describe(&self) -> String {
        self.0.iter().map(|m| m.describe()).collect::<Vec<_>>().join(" + ")
    }

    fn tokens(&self) -> u32 {
        self.0.first().map_or(0, |m| m.tokens())
    }

    fn heads(&self) -> u32 {
        self.0.iter().map(|m| m.heads()).max().unwrap_or(1)
    }

    fn weight(&self, head: u32, i: u32, j: u32) -> f64 {
        self.0.iter().map(|m| m.weight(head, i, j)).sum()
    }

    fn exactness(&self) -> Exactness {
        self.0.iter().map(|m| m.exactness()).max().unwrap_or(Exactness::Relative)
    }

    fn flop(&self) -> f64 {
        self.0.iter().map(|m| m.flop() + f64::from(m.tokens())).sum()
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, |mask, graph| mask.apply(graph, x))
    }

    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, |mask, graph| mask.apply_transposed(graph, x))
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        ParameterGradient::Declared("each mask's own, with the same dY")
    }
}

fn add(graph: &mut Graph, name: &str, x: Tensor, y: Tensor) -> Result<Tensor> {
    weighted_sum::record(graph, name, x, y, weighted_sum::Params::default())
}

/// A matrix of low rank, A Bᵀ with A and B `[n, rank]`: all ones, gates per token, borders of global tokens.
#[derive(Clone, Debug)]
pub struct LowRank {
    tokens: u32,
    rank: u32,
    left: Vec<f32>,
    right: Vec<f32>,
}

impl LowRank {
    /// A Bᵀ from A (rows: queries) and B (rows: keys), each `[n, rank]`.
    ///
    /// Errors: a rank of 0, other numbers of entries, NaN, infinite or negative entries.
    pub fn new(tokens: u32, rank: u32, left: Vec<f32>, right: Vec<f32>) -> Result<Self> {
        let wanted = u64::from(tokens) * u64::from(rank);
        if rank == 0 || left.len() as u64 != wanted || right.len() as u64 != wanted {
            let got = format!("{} and {} entries", left.len(), right.len());
            let expected = format!("twice {tokens} × {rank} entries, rank at least 1");
            return Err(Error::value(
                "factors of a low-rank mask",
                expected,
                got,
                "give a row per token in both",
            ));
        }
        for (name, factor) in [("left", &left), ("right", &right)] {
            if let Some(at) = factor.iter().position(|x| !(x.is_finite() && *x >= 0.0)) {
                let what = format!(
                    "entry {} of column {} of the {name} factor",
                    at / rank as usize,
                    at % rank as usize
                );
                return Err(Error::value(
                    what,
                    "a finite number of at least 0",
                    factor[at],
                    "use 0 for what must not be seen",
                ));
            }
        }
        Ok(Self { tokens, rank, left, right })
    }

    /// Every weight 1.
    ///
    /// Errors: none for a number of tokens that memory holds.
    pub fn ones(tokens: u32) -> Result<Self> {
        Self::new(tokens, 1, vec![1.0; tokens as usize], vec![1.0; tokens as usize])
    }

    /// Every weight 0.
    ///
    /// Errors: as [`Self::ones`].
    pub fn zeros(tokens: u32) -> Result<Self> {
        Self::new(tokens, 1, vec![0.0; tokens as usize], vec![0.0; tokens as usize])
    }

    /// What the first `globals` tokens add to a mask of the others: weight 1 from and to everything.
    ///
    /// Errors: more global tokens than tokens.
    pub fn border(tokens: u32, globals: u32) -> Result<Self> {
        if globals > tokens {
            return Err(Error::value(
                "global tokens",
                format!("at most {tokens}"),
                globals,
                "they are part of the tokens",
            ));
        }
        let global = |t: u32| f32::from(u8::from(t < globals));
        let left = (0..tokens).flat_map(|t| [global(t), 1.0 - global(t)]).collect();
        let right = (0..tokens).flat_map(|t| [1.0, global(t)]).collect();
        Self::new(tokens, 2, left, right)
    }

    fn record(&self, graph: &mut Graph, x: Tensor, out: &[f32], inside: &[f32]) -> Result<Tensor> {
        check(self, x)?;
        let mut factor = |name: &str, data: &[f32]| -> Result<Tensor> {
            let host = HostTensor::f32([1, 1, self.tokens, self.rank], data.to_vec())?;
            Ok(graph.constant(name, host))
        };
        let (outer, inner) = (factor("outer factor", out)?, factor("inner factor", inside)?);
        let down = matmul::Params { transpose_a: 1, ..Default::default() };
        let small = matmul::record(graph, "Bᵀ x", matmul::Inputs::new(inner, x), down)?;
        matmul::record(graph, "A Bᵀ x", matmul::Inputs::new(outer, small), matmul::Params::default())
    }
}

impl MaskOperator for LowRank {
    fn describe(&self) -> String {
        format!("matrix of rank {} on {} tokens", self.rank, self.tokens)
    }

    fn tokens(&self) -> u32 {
        self.tokens
    }

    fn heads(&self) -> u32 {
        1
    }

    fn weight(&self, _: u32, i: u32, j: u32) -> f64 {
        let row = |factor: &[f32], t: u32| factor[(t * self.rank) as usize..][..self.rank as usize].to_vec();
        let pairs = row(&self.left, i).into_iter().zip(row(&self.right, j));
        pairs.map(|(a, b)| f64::from(a) * f64::from(b)).sum()
    }

    fn exactness(&self) -> Exactness {
        Exactness::Relative
    }

    fn flop(&self) -> f64 {
        4.0 * f64::from(self.tokens) * f64::from(self.rank)
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, &self.left, &self.right)
    }

    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, &self.right, &self.left)
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        ParameterGradient::Declared("dA = dY (Bᵀ D)ᵀ, dB = D (Aᵀ dY)ᵀ")
    }

    fn low_rank(&self) -> Option<&LowRank> {
        Some(self)
    }
}

/// The Hadamard product of a mask with a matrix of low rank: Σₖ diag(aₖ) M diag(bₖ). Rank 1 scales rows and columns: gates and padding.
#[derive(Clone, Debug)]
pub struct Scaled {
    mask: SharedMask,
    by: LowRank,
}

impl Scaled {
    /// M ⊙ A Bᵀ.
    ///
    /// Errors: other numbers of tokens.
    pub fn new(mask: SharedMask, by: LowRank) -> Result<Self> {
        if mask.tokens() != by.tokens {
            let (expected, got) = (format!("{} tokens", mask.tokens()), format!("{} tokens", by.tokens));
            return Err(Error::value("scaling of a mask", expected, got, "make both for the same tokens"));
        }
        Ok(Self { mask, by })
    }

    fn record(
        &self,
        graph: &mut Graph,
        x: Tensor,
        out: &[f32],
        inside: &[f32],
        transpose: bool,
    ) -> Result<Tensor> {
        check(self, x)?;
        let mut factor = |name: &str, data: &[f32]| -> Result<Tensor> {
            let host = HostTensor::f32([1, 1, self.by.tokens, self.by.rank], data.to_vec())?;
            Ok(graph.constant(name, host))
        };
        let (outer, inner) = (factor("row scales", out)?, factor("column scales", inside)?);
        let mut sum: Option<Tensor> = None;
        for column in 0..self.by.rank {
            let params = scale_rows::Params { column, ..Default::default() };
            let scaled = scale_rows::record(graph, "diag(b) x", x, inner, params)?;
            let product = match transpose {
                false => self.mask.apply(graph, scaled)?,
                true => self.mask.apply_transposed(graph, scaled)?,
            };
            let part = scale_rows::record(graph, "diag(a) M diag(b) x", product, outer, params)?;
            sum = Some(match sum {
                None => part,
                Some(before) => add(graph, "scaled mask", before, part)?,
            });
        }
        sum.ok_or_else(|| Error::value("scaling of a mask", "rank of at least 1", 0, "give a column"))
    }
}

impl MaskOperator for Scaled {
    fn describe(&self) -> String {
        format!("({}) ⊙ {}", self.mask.describe(), self.by.describe())
    }

    fn tokens(&self) -> u32 {
        self.mask.tokens()
    }

    fn heads(&self) -> u32 {
        self.mask.heads()
    }

    fn weight(&self, head: u32, i: u32, j: u32) -> f64 {
        self.mask.weight(head, i, j) * self.by.weight(head, i, j)
    }

    fn exactness(&self) -> Exactness {
        self.mask.exactness()
    }

    fn flop(&self) -> f64 {
        f64::from(self.by.rank) * (self.mask.flop() + 3.0 * f64::from(self.tokens()))
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, &self.by.left, &self.by.right, false)
    }

    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, &self.by.right, &self.by.left, true)
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        ParameterGradient::Declared(
            "the mask's own with diag(aₖ) dY and diag(bₖ) D, summed over k; daₖ = rows of dY · M diag(bₖ) D",
        )
    }
}

/// Masks of independent groups of tokens, one after another: batches of graphs, packed sequences.
#[derive(Clone, Debug)]
pub struct BlockDiagonal {
    blocks: Vec<SharedMask>,
}

impl BlockDiagonal {
    /// diag(M₁, M₂, …).
    ///
    /// Errors: no block, other numbers of heads, more tokens than 32 bits count.
    pub fn new(blocks: Vec<SharedMask>) -> Result<Self> {
        let heads = blocks.iter().map(|m| m.heads()).max().unwrap_or(0);
        let tokens = blocks.iter().try_fold(0_u32, |sum, m| sum.checked_add(m.tokens()));
        if heads == 0 || tokens.is_none() || blocks.iter().any(|m| ![1, heads].contains(&m.heads())) {
            let got: Vec<String> =
                blocks.iter().map(|m| format!("{} ({} heads)", m.describe(), m.heads())).collect();
            let expected = "at least one block, each with 1 or the same number of heads";
            let got = if got.is_empty() { "none".into() } else { got.join("; ") };
            return Err(Error::value("blocks of a mask", expected, got, "give masks of equal heads"));
        }
        Ok(Self { blocks })
    }

    fn record(&self, graph: &mut Graph, x: Tensor, transpose: bool) -> Result<Tensor> {
        check(self, x)?;
        let [b, h] = [x.dim(0), x.dim(1)];
        let out = graph.transient("block diagonal", x.shape(), DType::F32);
        // Tokens of one head lie together, those of several do not, so blocks of masks that all heads share are taken head by
        // head as well: a block sees [1, 1, tokens, channels].
        for at in (0..b).flat_map(|b| (0..h).map(move |h| (b, h))) {
            let mut first = 0;
            for block in &self.blocks {
                let rows = first..first + block.tokens();
                first = rows.end;
                if rows.is_empty() {
                    continue;
                }
                let part = head(graph, x, at, rows.clone())?;
                let one = OneHead { mask: Arc::clone(block), head: at.1 };
                let product =
                    if transpose { one.apply_transposed(graph, part)? } else { one.apply(graph, part)? };
                let place = head(graph, out, at, rows)?;
                graph.pass(
                    &row_affine::SPEC,
                    &NoParams {},
                    &[Some(product), None, None, None, Some(place)],
                )?;
            }
        }
        Ok(out)
    }
}

impl MaskOperator for BlockDiagonal {
    fn describe(&self) -> String {
        format!("{} blocks of {} tokens in all", self.blocks.len(), self.tokens())
    }

    fn tokens(&self) -> u32 {
        self.blocks.iter().map(|m| m.tokens()).sum()
    }

    fn heads(&self) -> u32 {
        self.blocks.iter().map(|m| m.heads()).max().unwrap_or(1)
    }

    fn weight(&self, head: u32, i: u32, j: u32) -> f64 {
        let mut first = 0;
        for block in &self.blocks {
            let rows = first..first + block.tokens();
            if rows.contains(&i) {
                return if rows.contains(&j) { block.weight(head, i - first, j - first) } else { 0.0 };
            }
            first = rows.end;
        }
        0.0
    }

    fn exactness(&self) -> Exactness {
        self.blocks.iter().map(|m| m.exactness()).max().unwrap_or(Exactness::Relative)
    }

    fn flop(&self) -> f64 {
        self.blocks.iter().map(|m| m.flop()).sum()
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, false)
    }

    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, true)
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        ParameterGradient::Declared("each block's own, with its tokens")
    }
}

/// One head's mask of several, as a mask of one head.
#[derive(Clone, Debug)]
pub struct OneHead {
    mask: SharedMask,
    head: u32,
}

impl OneHead {
    /// Mask `head` of `mask`.
    ///
    /// Errors: a head that it does not have.
    pub fn new(mask: SharedMask, head: u32) -> Result<Self> {
        if mask.heads() > 1 && head >= mask.heads() {
            return Err(Error::value(
                "head of a mask",
                format!("below {}", mask.heads()),
                head,
                "heads count from 0",
            ));
        }
        Ok(Self { mask, head })
    }

    fn of(&self) -> Result<SharedMask> {
        if self.mask.heads() == 1 {
            return Ok(Arc::clone(&self.mask));
        }
        match self.mask.table() {
            Some(table) => Ok(Arc::new(Toeplitz(table.of_head(self.head)?))),
            None => Err(Error::value(
                "block of a mask",
                "one mask for all heads, or a table of relative positions",
                self.mask.describe(),
                "write the heads as masks of their own",
            )),
        }
    }
}

impl MaskOperator for OneHead {
    fn describe(&self) -> String {
        format!("head {} of {}", self.head, self.mask.describe())
    }

    fn tokens(&self) -> u32 {
        self.mask.tokens()
    }

    fn heads(&self) -> u32 {
        1
    }

    fn weight(&self, _: u32, i: u32, j: u32) -> f64 {
        self.mask.weight(self.head, i, j)
    }

    fn exactness(&self) -> Exactness {
        self.mask.exactness()
    }

    fn flop(&self) -> f64 {
        self.mask.flop()
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.of()?.apply(graph, x)
    }

    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.of()?.apply_transposed(graph, x)
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        self.mask.parameter_gradient()
    }
}

/// Linear attention under any mask operator: (M ⊙ q kᵀ) v, rows divided by their sums (method: topological masking, 1.2). Features are
/// taken `slice` at a time, so that 2 n · slice · (e + 1) numbers per head are alive at once.
///
/// `q`, `k` `[b, h, n, r]` mapped and non-negative, `v` `[b, h, n, e]`; the result is `[b, h, n, e]`, zeros where a row sees no key. A mask with
/// [`Exactness::Noise`] may spoil rows with small sums: for tables [`MaskedAttention`](crate::attention::MaskedAttention) has a guard.
///
/// Errors: other tokens or heads; a slice of 0.
pub fn attend(
    graph: &mut Graph,
    mask: &dyn MaskOperator,
    qkv: (Tensor, Tensor, Tensor),
    masks: Masks,
    slice: u32,
) -> Result<Tensor> {
    attend_from(graph, mask, None, qkv, masks, slice)
}

/// [`attend`] with `floor` added to every weight after the mask: (M ⊙ q kᵀ + floor · 1 1ᵀ) v, rows divided by their sums. The addition is of
/// rank 1, floor · Σⱼ [vⱼ, 1], and costs O(n).
///
/// Released code of TopViT computes this form, with a floor of 1e-8, beside its features'
/// ([`Published::TopVit`](crate::attention::Published::TopVit)): a query whose features are nearly all zero then averages all kept keys, mask or
/// not. Here for comparison; attention proper adds nothing.
///
/// Errors: as [`attend`]; a floor that is negative or not finite.
pub fn attend_with_floor(
    graph: &mut Graph,
    mask: &dyn MaskOperator,
    floor: f32,
    qkv: (Tensor, Tensor, Tensor),
    masks: Masks,
    slice: u32,
) -> Result<Tensor> {
    let tokens = mask.tokens();
    let everything = LowRank::new(tokens, 1, vec![floor; tokens as usize], vec![1.0; tokens as usize])?;
    let values = append_one::record(graph, qkv.2, masks.keys)?;
    let sums = everything.apply(graph, values)?;
    attend_from(graph, mask, Some(sums), qkv, masks, slice)
}

/// Attention whose numerators and denominators `[b, h, n, e + 1]` begin at `sum`.
fn attend_from(
    graph: &mut Graph,
    mask: &dyn MaskOperator,
    mut sum: Option<Tensor>,
    (q, k, v): (Tensor, Tensor, Tensor),
    masks: Masks,
    slice: u32,
) -> Result<Tensor> {
    if slice == 0 {
        return Err(Error::value("features at a time", "at least 1", slice, "8 is a good start"));
    }
    let [b, h, n, r, e] = [k.dim(0), k.dim(1), k.dim(2), k.dim(3), v.dim(3)];
    if r == 0 || e == 0 {
        let (expected, got) = ("at least 1 each", format!("k {}, v {}", k.shape(), v.shape()));
        let remedy = "choose a feature map with features, and values with columns";
        return Err(Error::value("features r of `k` and columns e of `v`", expected, got, remedy));
    }
    for first in (0..r).step_by(slice as usize) {
        let channels = slice.min(r - first) * (e + 1);
        let lifted = graph.transient("keys times values", [b, h, n, channels], DType::F32);
        graph.pass(
            &outer_rows::SPEC,
            &outer_rows::Params { first },
            &[Some(k), Some(v), masks.keys, Some(lifted)],
        )?;
        let masked = mask.apply(graph, lifted)?;
        let next = graph.transient("sums", [b, h, n, e + 1], DType::F32);
        graph.pass(
            &contract_rows::SPEC,
            &contract_rows::Params { first },
            &[Some(q), Some(masked), sum, Some(next)],
        )?;
        sum = Some(next);
    }
    let out = graph.transient("attended", [b, h, n, e], DType::F32);
    graph.pass(&divide_rows::SPEC, &NoParams {}, &[sum, masks.queries, Some(out), None])?;
    Ok(out)
}

/// A mask of the later tokens with `globals` tokens in front that see and are seen by everything (CLS tokens, registers).
///
/// Errors: more tokens than 32 bits count.
pub fn bordered(mask: SharedMask, globals: u32) -> Result<SharedMask> {
    if globals == 0 {
        return Ok(mask);
    }
    let inner = BlockDiagonal::new(vec![Arc::new(LowRank::zeros(globals)?), mask])?;
    let border = LowRank::border(inner.tokens(), globals)?;
    Ok(Arc::new(Sum::new(vec![Arc::new(inner), Arc::new(border)])?))
}

/// The Hadamard product of two masks, where it is fast: two tables, or anything with a matrix of low rank.
///
/// Errors: any other pair, with the way out.
pub fn hadamard(a: &SharedMask, b: &SharedMask) -> Result<SharedMask> {
    if let (Some(x), Some(y)) = (a.table(), b.table()) {
        return Ok(Arc::new(Toeplitz(x.times(y)?)));
    }
    for (mask, other) in [(a, b), (b, a)] {
        if let Some(by) = other.low_rank() {
            return Ok(Arc::new(Scaled::new(Arc::clone(mask), by.clone())?));
        }
    }
    Err(Error::value(
        "Hadamard product of two masks",
        "two tables of relative positions, or any mask with a matrix of low rank",
        format!("{} ⊙ {}", a.describe(), b.describe()),
        "it has no fast product: multiply the weights into a `Dense` mask, which costs N² memory and time",
    ))
}
