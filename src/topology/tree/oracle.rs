//! Sums over the nodes of a forest weighted by a function of distance, in f64: Y(i, c) = Σⱼ f(dist(i, j)) X(j, c) over the nodes of
//! i's tree. Independent ways to the same, for small and large forests.

use super::{Centroids, Forest, HeavyPaths};
use crate::error::{Error, Result};
use crate::numbers::{Short, significant};
use crate::topology::NONE;
use rustfft::{FftPlanner, num_complex::Complex};

/// Greatest −λ · diameter for growing exponentials: e^80 still fits f32.
pub const MOST_GROWTH: f64 = 80.0;

/// f(d) = exp(−λ d) by two sweeps, up and down; O(n) for any shape. `x` and the result: `[n, channels]`, node by node.
///
/// Negative λ (weights that grow with distance) goes by sums over siblings, which add only positive terms.
///
/// Errors: [`Error::Value`] for λ that is not finite, −λ · diameter above [`MOST_GROWTH`], or `x` of another size. Source: the
/// two-sweep form of distance sums on trees; see also the heavy-path form in [`exponential_by_paths`].
pub fn exponential(forest: &Forest, lambda: f64, x: &[f64], channels: usize) -> Result<Vec<f64>> {
    check_lambda(forest, lambda)?;
    check_values(forest, x, channels)?;
    let decay = |i: u32| (-lambda * f64::from(forest.lengths()[i as usize])).exp();
    let at = |i: u32, c: usize| i as usize * channels + c;
    let mut up = x.to_vec();
    for &i in forest.order().iter().rev() {
        let p = forest.parents()[i as usize];
        if p != NONE {
            for c in 0..channels {
                up[at(p, c)] += decay(i) * up[at(i, c)];
            }
        }
    }
    // What a node gets from outside of its subtree; its sum is that and what is below.
    let mut outside = vec![0.0; x.len()];
    let (order, starts) = (forest.order(), forest.child_starts());
    for (place, &p) in order.iter().enumerate() {
        let children = &order[starts[place] as usize..starts[place + 1] as usize];
        for c in 0..channels {
            let own = outside[at(p, c)] + x[at(p, c)];
            let mut before = own;
            for &i in children {
                outside[at(i, c)] = before;
                before += decay(i) * up[at(i, c)];
            }
            let mut behind = 0.0;
            for &i in children.iter().rev() {
                outside[at(i, c)] = decay(i) * (outside[at(i, c)] + behind);
                behind += decay(i) * up[at(i, c)];
            }
        }
    }
    Ok(up.iter().zip(outside).map(|(a, b)| a + b).collect())
}

/// The same for λ ≥ 0 along heavy paths, as scans compute it: U = X + Σ e U of the children, then F = e F(parent) + (1 − e²) U.
///
/// Errors: as [`exponential`], and λ < 0, for which this form cancels.
pub fn exponential_by_paths(
    forest: &Forest,
    paths: &HeavyPaths,
    lambda: f64,
    x: &[f64],
    channels: usize,
) -> Result<Vec<f64>> {
    check_lambda(forest, lambda)?;
    check_values(forest, x, channels)?;
    if lambda < 0.0 {
        return Err(Error::value("λ of sums along heavy paths", "at least 0", lambda, "use `exponential`"));
    }
    let decay = |s: usize| (-lambda * f64::from(paths.lengths[s])).exp();
    let spots =
        |path: u32| paths.path_starts[path as usize] as usize..paths.path_starts[path as usize + 1] as usize;
    let mut out = vec![0.0; x.len()];
    for c in 0..channels {
        let mut u: Vec<f64> = paths.nodes.iter().map(|i| x[*i as usize * channels + c]).collect();
        for round in paths.rounds.windows(2).rev() {
            for path in round[0]..round[1] {
                let mut below = 0.0;
                for s in spots(path).rev() {
                    let lights = paths.light_starts[s]..paths.light_starts[s + 1];
                    let tops = lights.map(|l| paths.path_starts[l as usize] as usize);
                    u[s] += below + tops.map(|t| decay(t) * u[t]).sum::<f64>();
                    below = decay(s) * u[s];
                }
            }
        }
        let mut f = u.clone();
        for path in 0..paths.above.len() as u32 {
            let mut above = paths.above[path as usize];
            for s in spots(path) {
                if above != NONE {
                    let e = decay(s);
                    // 1 − e² without cancellation for short edges.
                    let rest = -(-2.0 * lambda * f64::from(paths.lengths[s])).exp_m1();
                    f[s] = e * f[above as usize] + rest * u[s];
                }
                above = s as u32;
            }
        }
        for (s, i) in paths.nodes.iter().enumerate() {
            out[*i as usize * channels + c] = f[s];
        }
    }
    Ok(out)
}

/// Any f of the lengths of paths, by all pairs: O(n²), for small forests.
///
/// Errors: [`Error::Value`] for `x` of another size.
pub fn dense(forest: &Forest, f: impl Fn(f64) -> f64, x: &[f64], channels: usize) -> Result<Vec<f64>> {
    check_values(forest, x, channels)?;
    let mut out = vec![0.0; x.len()];
    for i in 0..forest.nodes() as u32 {
        for (j, d) in distances_from(forest, i).into_iter().enumerate().filter(|e| e.1.is_finite()) {
            let weight = f(d);
            for c in 0..channels {
                out[i as usize * channels + c] += weight * x[j * channels + c];
            }
        }
    }
    Ok(out)
}

/// Lengths of the paths from a node to all others; infinite to other trees.
pub fn distances_from(forest: &Forest, start: u32) -> Vec<f64> {
    let mut distance = vec![f64::INFINITY; forest.nodes()];
    let (mut node, mut length) = (start, 0.0);
    // Up to the root first; then every node that has no distance yet is one edge below its parent.
    loop {
        distance[node as usize] = length;
        length += f64::from(forest.lengths()[node as usize]);
        match forest.parents()[node as usize] {
            NONE => break,
            p => node = p,
        }
    }
    for &i in forest.order() {
        let p = forest.parents()[i as usize];
        if p != NONE && distance[i as usize].is_infinite() {
            distance[i as usize] = distance[p as usize] + f64::from(forest.lengths()[i as usize]);
        }
    }
    distance
}

/// Any f of the number of steps (lengths are not looked at), by cuts at centroids: O(n log² n). `f[d]` for d up to the diameter,
/// 0 beyond the list.
///
/// Errors: [`Error::Value`] for `x` of another size.
pub fn by_centroids(
    forest: &Forest,
    cuts: &Centroids,
    f: &[f64],
    x: &[f64],
    channels: usize,
) -> Result<Vec<f64>> {
    check_values(forest, x, channels)?;
    let mut out = vec![0.0; x.len()];
    let mut products = Products { planner: FftPlanner::new(), f };
    for c in 0..channels {
        let value = |i: u32| x[i as usize * channels + c];
        for cut in 0..cuts.nodes.len() {
            let mut all = vec![0.0; cuts.height(cut) + 1];
            all[0] = value(cuts.nodes[cut]);
            let branches = cuts.branch_starts[cut] as usize..cuts.branch_starts[cut + 1] as usize;
            let mut parts: Vec<Vec<f64>> = Vec::new();
            let rows = |b: usize| cuts.row_starts[b] as usize..cuts.row_starts[b + 1] as usize;
            let members =
                |r: usize| &cuts.members[cuts.member_starts[r] as usize..cuts.member_starts[r + 1] as usize];
            for b in branches.clone() {
                let mut part = vec![0.0];
                part.extend(rows(b).map(|r| members(r).iter().map(|i| value(*i)).sum::<f64>()));
                for (d, sum) in part.iter().enumerate() {
                    all[d] += sum;
                }
                parts.push(part);
            }
            let through = products.hankel(&all);
            out[cuts.nodes[cut] as usize * channels + c] += through[0];
            for (b, part) in branches.zip(parts) {
                let within = products.hankel(&part);
                for (d, r) in (1..).zip(rows(b)) {
                    for i in members(r) {
                        out[*i as usize * channels + c] += through[d] - within[d];
                    }
                }
            }
        }
    }
    Ok(out)
}

/// Any f of the number of steps, by level histograms: S(v, k) is what lies k steps below v, and what v sees at k steps altogether is that
/// and what its parent sees without it, one step on. O(n · diameter) time and memory, for small diameters; `f` as in [`by_centroids`].
///
/// Errors: [`Error::Value`] for `x` of another size, and histograms of more than 2²⁷ entries.
pub fn by_levels(forest: &Forest, f: &[f64], x: &[f64], channels: usize) -> Result<Vec<f64>> {
    const MOST: usize = 1 << 27;
    check_values(forest, x, channels)?;
    let (n, width) = (forest.nodes(), forest.diameter() as usize + 1);
    if n.saturating_mul(width) > MOST {
        return Err(Error::value(
            "level histograms of a forest",
            format!("nodes × (diameter + 1) of at most {MOST}"),
            format!("{n} × {width}"),
            "use cuts at centroids",
        ));
    }
    let mut out = vec![0.0; x.len()];
    let heights = forest.heights();
    for c in 0..channels {
        let mut below = vec![0.0; n * width];
        for i in 0..n {
            below[i * width] = x[i * channels + c];
        }
        for &i in forest.order().iter().rev() {
            let p = forest.parents()[i as usize];
            if p != NONE {
                for k in 0..=heights[i as usize] as usize {
                    below[p as usize * width + k + 1] += below[i as usize * width + k];
                }
            }
        }
        let mut seen = below.clone();
        for &i in forest.order() {
            let p = forest.parents()[i as usize];
            if p != NONE {
                for k in 1..width {
                    // What the parent sees at k − 1 steps, less what of it lies below this node, k − 2 steps from it.
                    let through = if k >= 2 { below[i as usize * width + k - 2] } else { 0.0 };
                    seen[i as usize * width + k] += seen[p as usize * width + k - 1] - through;
                }
            }
        }
        for i in 0..n {
            let sums = seen[i * width..(i + 1) * width].iter().zip(f);
            out[i * channels + c] = sums.map(|(s, f)| s * f).sum();
        }
    }
    Ok(out)
}

/// Hankel products with one f.
struct Products<'a> {
    planner: FftPlanner<f64>,
    f: &'a [f64],
}

impl Products<'_> {
    /// out[a] = Σ_b f(a + b) h[b], as long as h.
    fn hankel(&mut self, h: &[f64]) -> Vec<f64> {
        let at = |d: usize| self.f.get(d).copied().unwrap_or(0.0);
        let n = h.len();
        // Below this the direct sum is faster and more exact.
        if n <= 64 {
            return (0..n).map(|a| h.iter().enumerate().map(|(b, x)| at(a + b) * x).sum()).collect();
        }
        // A correlation: the product of f's transform with that of h turned round; 2n − 1 values of f, so length 2n wraps nothing in.
        let length = (2 * n).next_power_of_two();
        let complex = |x: f64| Complex::new(x, 0.0);
        let mut left: Vec<_> = (0..length).map(|d| complex(if d < 2 * n { at(d) } else { 0.0 })).collect();
        let mut right = vec![complex(0.0); length];
        for (b, x) in h.iter().enumerate() {
            right[(length - b) % length] = complex(*x);
        }
        let forward = self.planner.plan_fft_forward(length);
        forward.process(&mut left);
        forward.process(&mut right);
        for (a, b) in left.iter_mut().zip(&right) {
            *a *= b;
        }
        self.planner.plan_fft_inverse(length).process(&mut left);
        left.iter().take(n).map(|x| x.re / length as f64).collect()
    }
}

fn check_lambda(forest: &Forest, lambda: f64) -> Result<()> {
    let growth = -lambda * forest.diameter_length();
    if lambda.is_finite() && growth <= MOST_GROWTH {
        return Ok(());
    }
    let got = match lambda.is_finite() {
        true => format!("{} for λ = {}", significant(growth, 4), Short(lambda)),
        false => lambda.to_string(),
    };
    Err(Error::value(
        "−λ · longest path of a tree mask",
        format!("finite, at most {MOST_GROWTH}"),
        got,
        "use a λ nearer to 0, or shorter edges",
    ))
}

fn check_values(forest: &Forest, x: &[f64], channels: usize) -> Result<()> {
    if x.len() == forest.nodes() * channels {
        return Ok(());
    }
    Err(Error::value(
        "values at the nodes of a forest",
        format!("{} nodes × {channels} channels", forest.nodes()),
        x.len(),
        "give every node its channels, one node after the other",
    ))
}
