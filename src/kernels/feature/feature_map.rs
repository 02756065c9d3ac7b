//! Feature maps φ of linear attention: rows of numbers whose inner products stand for a similarity of query and key.
//!
//! With y = scale · x and u = W y (u = y where there is no projection):
//!
//! | map | φ(x) | scale by itself |
//! |---|---|---|
//! | 0 `elu1` | u + 1 above 0, e^u below | 1 |
//! | 1 `relu` | max(u, 0) + eps | 1 |
//! | 2 `exp` | e^(y − s) | 1 |
//! | 3 `favor+` | e^(u − ‖y‖²/2 − s) / √r | d^−¼ |
//! | 4 `hyperbolic` | e^(±u − ‖y‖²/2 − s) / √r, first all +u, then all −u | d^−¼ |
//! | 5 `trigonometric` | e^(‖y‖²/2 − s) · (cos u, sin u) / √(r/2); can be negative | d^−¼ |
//!
//! The shift s is the largest whole exponent, the norm in it: of a query its own row's (role 0), of keys that of their batch
//! element, head and segment over the kept rows (role 1). Such a shift cancels in attention, so φ is in [0, 1/√r] for every
//! finite input up to 1e18 and one element of a batch does not move another. There is no eps in it.
//!
//! `maximum` 1 and 2 are published forms, kept to compare with: the largest *product* is taken off, without the norm, of keys
//! over a head (1) or over the whole tensor (2), and eps is added to every exponential. Small keys drown in eps then.
//!
//! * `x` `[b, h, n, d]`, `projection` W `[p, d]`, shared by all heads.
//! * `key_mask` `[b, h, n]`: 0 makes the row zeros and keeps it from every maximum, whatever it holds; may be shared by heads.
//! * `starts` `[b, h, s]`: boundaries of packed segments, see [`segment_max`]; a row in no segment is zeros.
//! * `out` `[b, h, n, r]`: r = p, or d without projection; twice that for maps 4 and 5.

use super::segment_max::{Rows, Segments};
use super::{feature_exp, feature_pointwise, feature_rows, segment_max, segment_shift};
use crate::numbers::Short;
use crate::error::Result;
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::kernels::laplacian::nystrom::slices;
use crate::kernels::linalg::{matmul, transpose};
use crate::tensor::{DType, Dims, HostData, Tensor};
use crate::words::or_none;
use crate::{params, reference};
use std::ops::Range;

/// Numbers of the maps.
pub const ELU1: u32 = 0;
/// See the module.
pub const RELU: u32 = 1;
/// See the module.
pub const EXP: u32 = 2;
/// See the module.
pub const FAVOR: u32 = 3;
/// See the module.
pub const HYPERBOLIC: u32 = 4;
/// See the module.
pub const TRIGONOMETRIC: u32 = 5;

/// `role` of queries.
pub const QUERY: u32 = 0;
/// `role` of keys.
pub const KEY: u32 = 1;

/// `maximum`: of the whole exponent.
pub const WHOLE: u32 = 0;
/// `maximum`: of the products, keys over their head.
pub const PRODUCTS_OF_HEAD: u32 = 1;
/// `maximum`: of the products, keys over the whole tensor.
pub const PRODUCTS_OF_ALL: u32 = 2;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// factor of x; 0 stands for the map's own, 1 or d^−¼
        live scale: f32 = 0.0,
        /// added to ReLU, or to every exponential in published forms
        live eps: f32 = 0.0,
        /// 0 ELU + 1, 1 ReLU, 2 exponential, 3 FAVOR+, 4 hyperbolic, 5 trigonometric
        fixed map: u32 = ELU1,
        /// 0 queries, 1 keys: whose maximum is taken off
        fixed role: u32 = KEY,
        /// 0 of the whole exponent; published forms: products only, keys 1 over a head, 2 over everything
        fixed maximum: u32 = WHOLE,
    }
}

impl Params {
    /// The factor of x for tokens of `d` numbers.
    pub fn scale_of(&self, d: u32) -> f64 {
        match (self.scale, self.map) {
            (0.0, ELU1 | RELU | EXP) => 1.0,
            (0.0, _) => f64::from(d.max(1)).powf(-0.25),
            (given, _) => given.into(),
        }
    }

    /// Features that `p` products make.
    fn width(&self, p: u32) -> u64 {
        u64::from(p) * if self.map >= HYPERBOLIC { 2 } else { 1 }
    }

    /// What is taken off a row of exponents.
    fn rows(&self, d: u32) -> feature_rows::Params {
        let ends = match (self.maximum, self.role) {
            (WHOLE, QUERY) => feature_rows::NOTHING,
            (WHOLE, _) | (_, KEY) => feature_rows::WHOLE,
            _ => feature_rows::NORM,
        };
        let sides = match self.map {
            HYPERBOLIC => feature_rows::BOTH,
            TRIGONOMETRIC => feature_rows::NONE,
            _ => feature_rows::SINGLE,
        };
        // Products bear the scale already; only the exponential map takes tokens as they are.
        let scale = if self.map == EXP { self.scale_of(d) } else { 1.0 };
        feature_rows::Params {
            scale: scale as f32,
            half: (self.scale_of(d) * std::f64::consts::FRAC_1_SQRT_2) as f32,
            sides,
            ends,
        }
    }

    /// The last step, to `r` features.
    fn end(&self, d: u32, r: u32) -> feature_exp::Params {
        let (sides, gain) = match self.map {
            HYPERBOLIC => (feature_exp::BOTH, f64::from(r).sqrt().recip()),
            TRIGONOMETRIC => (feature_exp::WAVES, (0.5 * f64::from(r)).sqrt().recip()),
            FAVOR => (feature_exp::SINGLE, f64::from(r).sqrt().recip()),
            _ => (feature_exp::SINGLE, 1.0),
        };
        feature_exp::Params { scale: self.rows(d).scale, gain: gain as f32, eps: self.eps, sides }
    }

    fn pointwise(&self, scale: f64) -> feature_pointwise::Params {
        feature_pointwise::Params { scale: scale as f32, eps: self.eps, map: self.map }
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    let (d, r, products) = (dims.size("d"), dims.size("r"), dims.find("p"));
    if p.map > TRIGONOMETRIC || p.role > KEY || p.maximum > PRODUCTS_OF_ALL {
        return Err(format!(
            "map is 0 to 5, role 0 or 1, maximum 0 to 2; got {}, {} and {}",
            p.map, p.role, p.maximum
        ));
    }
    let sane = p.scale >= 0.0 && p.scale.is_finite() && p.eps >= 0.0 && p.eps.is_finite();
    if !sane {
        return Err(format!("scale and eps are finite and not below 0, got {} and {}", Short(p.scale), Short(p.eps)));
    }
    if d == 0 || products == Some(0) || r == 0 {
        return Err(format!("wants d, r and rows of the projection ≥ 1, got d = {d}, r = {r}, p = {}", or_none(products)));
    }
    if p.map >= FAVOR && products.is_none() {
        return Err("maps 3 to 5 need `projection` [p, d]".into());
    }
    if matches!(p.map, ELU1 | EXP) && products.is_some() {
        return Err("maps 0 and 2 act on x itself: leave `projection` out".into());
    }
    let published = p.map == RELU || (p.map == FAVOR && p.maximum != WHOLE);
    if p.eps > 0.0 && !published {
        return Err(format!(
            "eps = {} would be part of the features: only ReLU and published FAVOR+ forms (maximum 1, 2) take one",
            p.eps
        ));
    }
    if p.maximum != WHOLE && (p.map != FAVOR || dims.find("s").is_some()) {
        return Err("published maxima are those of FAVOR+ (map 3) without segments".into());
    }
    let wanted = p.width(products.unwrap_or(d));
    if u64::from(r) != wanted {
        return Err(format!("makes r = {wanted} features, got r = {r}"));
    }
    match dims.find("s") {
        Some(0) => Err("starts [b, h, s] bound s − 1 segments; wants s ≥ 1".into()),
        _ => Ok(()),
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, d, r] = ["n", "d", "r"].map(|name| args.dims.at(name));
    let batches = args.dims.batches() as usize;
    let (x, w) = (args.real("x"), args.real_if("projection"));
    let shared = &*args;
    let segments = Segments::of(shared);
    let segment = |batch: usize, i: usize| {
        segments.of_row(shared, batch, i).filter(|_| kept(shared, "key_mask", batch, i))
    };
    let scale = T::of(p.scale_of(d as u32));
    let products = |at: usize| -> Vec<T> {
        let x = &x[at * d..][..d];
        let product = |w: &[T]| scale * w.iter().zip(x).map(|(&a, &b)| a * b).sum::<T>();
        w.as_ref().map_or_else(|| x.to_vec(), |w| w.chunks_exact(d).map(product).collect())
    };
    if p.map <= RELU {
        let eps = T::of(p.eps.into());
        let factor = if w.is_some() { T::one() } else { scale };
        let out = reference::rows(batches, n, r, |batch, i, line| {
            if segment(batch, i).is_some() {
                let u = products(batch * n + i).into_iter();
                line.iter_mut().zip(u).for_each(|(y, u)| *y = feature_pointwise::value(p.map, eps, factor * u));
            }
        });
        args.set("out", out);
        return Ok(());
    }
    let (of_rows, end) = (p.rows(d as u32), p.end(d as u32, r as u32));
    let mut rows = reference::rows(batches, n, 2, |batch, i, line| {
        let at = batch * n + i;
        let with_norm = (p.map != EXP).then(|| &x[at * d..][..d]);
        (line[0], line[1]) = feature_rows::row(&of_rows, &products(at), with_norm);
    });
    // The shift of keys: the largest row of their head and segment; published forms look at the products.
    let column = usize::from(p.maximum == WHOLE);
    let mut maxima = std::collections::HashMap::new();
    let group = |batch: usize, g: usize| if p.maximum == PRODUCTS_OF_ALL { (0, 0) } else { (batch, g) };
    for (batch, i) in (0..batches).flat_map(|b| (0..n).map(move |i| (b, i))) {
        if let Some(g) = segment(batch, i) {
            let value = rows[(batch * n + i) * 2 + column];
            let largest = maxima.entry(group(batch, g)).or_insert(value);
            *largest = largest.max(value);
        }
    }
    for (batch, i) in (0..batches).flat_map(|b| (0..n).map(move |i| (b, i))) {
        let row = &mut rows[(batch * n + i) * 2..][..2];
        match segment(batch, i) {
            Some(g) if p.role == KEY => row[1] -= maxima[&group(batch, g)],
            Some(_) => {}
            None => row[1] = T::of(segment_shift::LEFT_OUT.into()),
        }
        if segment(batch, i).is_some() {
            row[1] = row[1].max(T::of(segment_shift::LOWEST.into()));
        }
    }
    let out = reference::rows(batches, n, r, |batch, i, line| {
        let at = batch * n + i;
        feature_exp::row(&end, &products(at), (rows[2 * at], rows[2 * at + 1]), line);
    });
    args.set("out", out);
    Ok(())
}

/// Heads (counted through the batch) and rows of them that are worked at a time.
type Piece = (Range<u32>, Range<u32>);

/// Pieces whose products stay under a budget.
fn pieces(heads: u32, n: u32, row_bytes: u64, budget: u64) -> Vec<Piece> {
    let per_head = u64::from(n) * row_bytes;
    if per_head <= budget {
        let whole = || vec![(0, 0..heads)];
        return slices(1, heads, per_head, budget).unwrap_or_else(whole).into_iter().map(|(_, h)| (h, 0..n)).collect();
    }
    let rows = u32::try_from(budget / row_bytes.max(1)).unwrap_or(n).max(64);
    let of_head = |h: u32| (0..n).step_by(rows as usize).map(move |i| (h..h + 1, i..i.saturating_add(rows).min(n)));
    (0..heads).flat_map(of_head).collect()
}

/// The part of `[1, heads, n, w]` that a piece covers.
fn part(graph: &mut Graph, whole: Tensor, piece: &Piece) -> Result<Tensor> {
    let heads = graph.slice(whole, 1, piece.0.clone())?;
    if piece.1 == (0..whole.dim(2)) { Ok(heads) } else { graph.slice(heads, 2, piece.1.clone()) }
}

/// One expansion: its tensors with all heads in a row.
struct Work<'a> {
    p: Params,
    x: Tensor,
    out: Tensor,
    /// Transposed projection `[1, 1, d, p]`.
    w: Option<Tensor>,
    pieces: &'a [Piece],
}

impl Work<'_> {
    /// The numbers that the map acts on, of one piece: products with the projection, or the tokens.
    fn products(&self, graph: &mut Graph, piece: &Piece) -> Result<Tensor> {
        let x = part(graph, self.x, piece)?;
        let Some(w) = self.w else { return Ok(x) };
        let alpha = self.p.scale_of(self.x.dim(3)) as f32;
        let params = matmul::Params { alpha, ..matmul::Params::default() };
        matmul::record(graph, "products", matmul::Inputs::new(x, w), params)
    }

    fn rows(&self, graph: &mut Graph, piece: &Piece, u: Tensor, rows: Tensor) -> Result<()> {
        let params = self.p.rows(self.x.dim(3));
        let normed = self.p.map != EXP && params.ends != feature_rows::NOTHING;
        let x = if normed { Some(part(graph, self.x, piece)?) } else { None };
        let rows = part(graph, rows, piece)?;
        graph.pass(&feature_rows::SPEC, &params, &[Some(u), x, Some(rows)])?;
        Ok(())
    }

    fn end(&self, graph: &mut Graph, piece: &Piece, u: Tensor, rows: Tensor) -> Result<()> {
        let (rows, out) = (part(graph, rows, piece)?, part(graph, self.out, piece)?);
        let params = self.p.end(self.x.dim(3), self.out.dim(3));
        graph.pass(&feature_exp::SPEC, &params, &[Some(u), Some(rows), Some(out)])?;
        Ok(())
    }

    /// Rows, then `finish` over all of them, then features; the products of a piece are made twice where all do not fit.
    fn exponential(&self, graph: &mut Graph, finish: impl FnOnce(&mut Graph, Tensor) -> Result<Tensor>) -> Result<()> {
        let rows = graph.transient("rows", [1, self.x.dim(1), self.x.dim(2), 2], DType::F32);
        let mut only = None;
        for piece in self.pieces {
            let u = self.products(graph, piece)?;
            self.rows(graph, piece, u, rows)?;
            only = Some(u);
        }
        let rows = finish(graph, rows)?;
        for piece in self.pieces {
            let u = match only {
                Some(u) if self.pieces.len() == 1 => u,
                _ => self.products(graph, piece)?,
            };
            self.end(graph, piece, u, rows)?;
        }
        Ok(())
    }
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let p: Params = x.params();
    let (tokens, out) = (x.port("x"), x.port("out"));
    let of = Rows { key_mask: x.port_if("key_mask"), starts: x.port_if("starts") };
    let projection = x.port_if("projection");
    let [b, h, n, d, r] = ["b", "h", "n", "d", "r"].map(|name| x.dims.size(name));
    let graph = &mut *x.graph;
    let w = match projection {
        None => None,
        Some(w) => {
            let flat = graph.reshape(w, [1, 1, w.dim(0), d])?;
            Some(transpose::record(graph, "projection, transposed", flat)?)
        }
    };
    if p.map <= RELU && w.is_none() {
        let args = [Some(tokens), of.key_mask, of.starts, Some(out)];
        graph.pass(&feature_pointwise::SPEC, &p.pointwise(p.scale_of(d)), &args)?;
        return Ok(());
    }
    let row_bytes = w.map_or(0, |w| 4 * u64::from(w.dim(3)));
    let heads = b * h;
    // Another half for what the rest of the graph holds meanwhile.
    let pieces = pieces(heads, n, row_bytes, x.caps.memory_budget / 2);
    let all = |graph: &mut Graph, t: Tensor| graph.reshape(t, [1, heads, n, t.dim(3)]);
    let work = Work { p, x: all(graph, tokens)?, out: all(graph, out)?, w, pieces: &pieces };
    if p.map == RELU {
        return relu(graph, &work, of, (b, h, n, r));
    }
    work.exponential(graph, |graph, rows| {
        let rows = graph.reshape(rows, [b, h, n, 2])?;
        let masked = of.key_mask.is_some() || of.starts.is_some();
        let maxima = match (p.role, p.maximum) {
            (QUERY, _) => None,
            (_, WHOLE) => Some(segment_max::record(graph, "maxima", rows, of, 1)?),
            (_, maximum) => {
                let of_heads = segment_max::record(graph, "maxima", rows, of, 0)?;
                match maximum {
                    PRODUCTS_OF_HEAD => Some(of_heads),
                    _ => {
                        let flat = graph.reshape(of_heads, [1, 1, heads, 1])?;
                        Some(segment_max::record(graph, "maximum", flat, Rows::default(), 0)?)
                    }
                }
            }
        };
        let shifted = match maxima {
            None if !masked => rows,
            maxima => segment_shift::record(graph, "shifted rows", rows, maxima, of)?,
        };
        graph.reshape(shifted, [1, heads, n, 2])
    })
}

/// ReLU of products: pieces are whole heads where a mask or boundaries count rows.
fn relu(graph: &mut Graph, work: &Work<'_>, of: Rows, (b, h, n, r): (u32, u32, u32, u32)) -> Result<()> {
    let params = work.p.pointwise(1.0);
    if let [piece] = work.pieces {
        let u = work.products(graph, piece)?;
        let u = graph.reshape(u, [b, h, n, r])?;
        let out = graph.reshape(work.out, [b, h, n, r])?;
        graph.pass(&feature_pointwise::SPEC, &params, &[Some(u), of.key_mask, of.starts, Some(out)])?;
        return Ok(());
    }
    let masked = of.key_mask.is_some() || of.starts.is_some();
    let whole = if masked { graph.transient("unmasked features", work.out.shape(), DType::F32) } else { work.out };
    for piece in work.pieces {
        let u = work.products(graph, piece)?;
        let to = part(graph, whole, piece)?;
        graph.pass(&feature_pointwise::SPEC, &params, &[Some(u), None, None, Some(to)])?;
    }
    if masked {
        // ReLU of what is not below 0 is itself.
        let (whole, out) = (graph.reshape(whole, [b, h, n, r])?, graph.reshape(work.out, [b, h, n, r])?);
        let same = feature_pointwise::Params { scale: 1.0, eps: 0.0, map: feature_pointwise::RELU };
        graph.pass(&feature_pointwise::SPEC, &same, &[Some(whole), of.key_mask, of.starts, Some(out)])?;
    }
    Ok(())
}

/// Every third key is left out and holds garbage.
fn garbage(dims: &Dims) -> HostData {
    let (n, d) = (dims.at("n"), dims.at("d"));
    let hash = |i: usize| ((i as u32).wrapping_mul(0x9e37_79b9) >> 8) as f32 / (1_u32 << 23) as f32 - 1.0;
    let number = |i: usize| if (i / d % n) % 3 == 1 { 1e30 } else { 3.0 * hash(i) };
    HostData::F32((0..dims.batches() as usize * n * d).map(number).collect())
}

fn without_garbage(dims: &Dims) -> HostData {
    let n = dims.at("n");
    HostData::U8((0..dims.batches() as usize * n).map(|i| u8::from(i % n % 3 != 1)).collect())
}

const fn sizes(n: u32, d: u32, r: u32) -> [(&'static str, u32); 5] {
    [("b", 2), ("h", 2), ("n", n), ("d", d), ("r", r)]
}

const fn projected(n: u32, d: u32, p: u32, r: u32) -> [(&'static str, u32); 6] {
    [("b", 2), ("h", 2), ("n", n), ("d", d), ("p", p), ("r", r)]
}

fn with(map: u32, role: u32) -> Vec<u8> {
    Params { map, role, ..Params::default() }.to_bytes()
}

fn published(maximum: u32, role: u32, eps: f32) -> Vec<u8> {
    Params { map: FAVOR, role, maximum, eps, ..Params::default() }.to_bytes()
}

const W: (&str, Fill) = ("projection", Fill::Uniform(-1.7, 1.7));
const BARE: &[&str] = &["key_mask", "starts"];
const ITSELF: &[&str] = &["projection", "key_mask", "starts"];
const GARBAGE: &[(&str, Fill)] =
    &[W, ("x", Fill::Made(garbage)), ("key_mask", Fill::Made(without_garbage))];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "feature_map",
    family: "feature",
    formula: "φ: elu(x)+1, max(Wx, 0), e^(x−s), e^(Wx−|x|²/2−s)/√r, the same for ±W, or e^(|x|²/2−s)(cos, sin)(Wx)/√(r/2)",
    source: "Choromanski et al. 2021, lemma 1; Katharopoulos et al. 2020, eq. 7; shifts: derivation",
    ports: &[
        Port::read("x", &["b", "h", "n", "d"]),
        Port::read("projection", &["p", "d"]).optional(),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("starts", &["b", "h", "s"]).of(DType::U32).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "r"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, params| {
        let products = dims.find("p").unwrap_or_else(|| dims.size("d"));
        dims.set("r", u32::try_from(Params::from_bytes(params).width(products)).unwrap_or(u32::MAX));
    }),
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let rows = d.batches() as f64 * f64::from(d.size("n"));
        let (depth, r) = (f64::from(d.size("d")), f64::from(d.size("r")));
        let products = d.find("p").map_or(0.0, |p| 2.0 * f64::from(p) * depth);
        Cost { flop: rows * (products + 2.0 * depth + 2.0 * r), exp: rows * r, stores: rows * r, bytes: 4.0 * rows * (depth + r), ..Cost::default() }
    },
    tolerance: Tolerance {
        factor: 2.0,
        floor: 2e-6,
        reason: "an exponent of a few dozens is rounded at 2e-6, wherever the naive order happens to round less",
    },
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("d", 1), ("r", 1)], Params::default_bytes).without(ITSELF),
        Case::new("elu1", &sizes(33, 7, 7), || with(ELU1, KEY)).without(&["projection", "starts"]),
        Case::new("relu", &sizes(33, 7, 7), || with(RELU, KEY)).without(ITSELF),
        Case::new("relu_projected", &projected(33, 7, 13, 13), || Params { eps: 1e-3, ..Params::from_bytes(&with(RELU, QUERY)) }.to_bytes())
            .without(&["starts"]).filled(GARBAGE),
        Case::new("exp_query", &sizes(17, 9, 9), || with(EXP, QUERY)).without(ITSELF).filled(&[("x", Fill::Uniform(-6.0, 6.0))]),
        Case::new("exp_key", &sizes(17, 9, 9), || with(EXP, KEY)).without(&["projection", "starts"]).filled(&GARBAGE_OF_TOKENS),
        Case::new("favor_one", &[("b", 1), ("h", 1), ("n", 1), ("d", 1), ("p", 1), ("r", 1)], || with(FAVOR, KEY)).without(BARE).filled(&[W]),
        Case::new("favor_query", &projected(65, 8, 33, 33), || with(FAVOR, QUERY)).without(BARE)
            .filled(&[W, ("x", Fill::Uniform(-2.0, 2.0))]),
        Case::new("favor_key", &projected(65, 12, 32, 32), || with(FAVOR, KEY)).without(BARE)
            .filled(&[W, ("x", Fill::Uniform(-2.0, 2.0))]),
        Case::new("favor_many_rows", &[("b", 1), ("h", 2), ("n", 2100), ("d", 8), ("p", 12), ("r", 12)], || with(FAVOR, KEY))
            .without(&["starts"]).filled(GARBAGE),
        Case::new("favor_packed", &[("b", 2), ("h", 2), ("n", 70), ("d", 8), ("p", 12), ("r", 12), ("s", 7)], || with(FAVOR, KEY))
            .filled(&[W, ("x", Fill::Uniform(-3.0, 3.0)), ("starts", Fill::Made(segment_max::packed))]).shared(&["key_mask"]),
        Case::new("favor_masked_query", &projected(33, 8, 12, 12), || with(FAVOR, QUERY)).without(&["starts"]).filled(GARBAGE),
        Case::new("favor_no_key_kept", &projected(33, 8, 12, 12), || with(FAVOR, KEY)).without(&["starts"])
            .filled(&[W, ("x", Fill::Value(1e30)), ("key_mask", Fill::Value(0.0))]),
        Case::new("favor_no_row", &projected(0, 8, 12, 12), || with(FAVOR, KEY)).without(BARE).filled(&[W]),
        Case::new("favor_1e3", &projected(33, 8, 12, 12), || with(FAVOR, KEY)).without(BARE)
            .filled(&[W, ("x", Fill::Uniform(-1e3, 1e3))]),
        Case::new("large_values", &projected(33, 8, 12, 12), || with(FAVOR, KEY)).without(BARE)
            .filled(&[W, ("x", Fill::Uniform(-1e18, 1e18))]),
        Case::new("hyperbolic_query", &projected(33, 7, 6, 12), || with(HYPERBOLIC, QUERY)).without(BARE).filled(&[W]),
        Case::new("hyperbolic_key", &projected(33, 8, 12, 24), || with(HYPERBOLIC, KEY)).without(&["starts"]).filled(GARBAGE),
        Case::new("trigonometric_query", &projected(33, 7, 6, 12), || with(TRIGONOMETRIC, QUERY)).without(BARE).filled(&[W]),
        Case::new("trigonometric_key", &projected(33, 8, 12, 24), || with(TRIGONOMETRIC, KEY)).without(&["starts"]).filled(GARBAGE),
        Case::new("published_query", &projected(33, 8, 12, 12), || published(PRODUCTS_OF_HEAD, QUERY, 1e-4)).without(BARE)
            .filled(&[W, ("x", Fill::Uniform(-2.0, 2.0))]),
        Case::new("published_head", &projected(33, 8, 12, 12), || published(PRODUCTS_OF_HEAD, KEY, 1e-4)).without(BARE)
            .filled(&[W, ("x", Fill::Uniform(-2.0, 2.0))]),
        Case::new("published_all", &projected(33, 8, 12, 12), || published(PRODUCTS_OF_ALL, KEY, 1e-6)).without(&["starts"]).filled(GARBAGE),
        Case::new("favor_4096", &[("b", 1), ("h", 8), ("n", 4096), ("d", 32), ("p", 64), ("r", 64)], || with(FAVOR, KEY))
            .without(BARE).filled(&[W]).for_bench(),
        Case::new("favor_query_4096", &[("b", 1), ("h", 8), ("n", 4096), ("d", 32), ("p", 64), ("r", 64)], || with(FAVOR, QUERY))
            .without(BARE).filled(&[W]).for_bench(),
        Case::new("elu1_4096", &[("b", 1), ("h", 8), ("n", 4096), ("d", 32), ("r", 32)], || with(ELU1, KEY)).without(ITSELF).for_bench(),
    ],
    vjp: None,
};

const GARBAGE_OF_TOKENS: [(&str, Fill); 2] =
    [("x", Fill::Made(garbage)), ("key_mask", Fill::Made(without_garbage))];

/// Tensors of a map; see the module.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    /// Tokens.
    pub x: Tensor,
    /// W, where the map has one.
    pub projection: Option<Tensor>,
    /// Rows that count, and their segments.
    pub rows: Rows,
}

/// Records the features into a new transient `[b, h, n, r]`.
///
/// Errors: shapes or parameters that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, inputs: Inputs, params: Params) -> Result<Tensor> {
    let Inputs { x, projection, rows } = inputs;
    let products = projection.map_or(x.dim(3), |w| w.dim(0));
    let r = u32::try_from(params.width(products)).unwrap_or(u32::MAX);
    let out = graph.transient(name, [x.dim(0), x.dim(1), x.dim(2), r], DType::F32);
    graph.pass(&SPEC, &params, &[Some(x), projection, rows.key_mask, rows.starts, Some(out)])?;
    Ok(out)
}
