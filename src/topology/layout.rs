//! Places for the nodes of a network in the plane, where nobody gave any: springs along edges, and all nodes pushing each other away.
//!
//! Every component is laid out alone and the parts are set side by side. A component begins at its distances from a few far nodes,
//! flattened to the two directions in which they differ most (which unfolds grids, rings and trees at once), and is then relaxed by the
//! forces of Fruchterman and Reingold under a falling temperature; what is far pushes as the mean of its square of a quadtree (Barnes and
//! Hut), and of very many edges each step takes others. Nothing is random, and steps and their work are bounded, so the same network always
//! looks the same.
//!
//! Sources: Fruchterman and Reingold, *Graph drawing by force-directed placement*, 1991; Barnes and Hut, *A hierarchical O(N log N)
//! force-calculation algorithm*, 1986; Harel and Koren, *Graph drawing by high-dimensional embedding*, 2002.

use super::Network;

/// Steps that are usually enough.
pub const USUAL_STEPS: usize = 120;

/// Far nodes that distances are taken from.
const PIVOTS: usize = 12;

/// A square counts as one body where its side is below this share of its distance.
const OPEN: f64 = 0.9;

/// Springs that are pulled in a step, counted from both of their ends: of networks with more every node takes a sample of its own, another
/// one each step, but never fewer than some.
const SPRINGS: usize = 1 << 17;
const LEAST_SPRINGS: usize = 16;

/// Gap between components, in edges.
const GAP: f64 = 2.0;

/// Places `[n]` of the nodes: edges are about 1 long, y grows downwards, the middle of all is (0, 0). Directions, loops and weights are
/// not looked at. `go_on` is asked before every step; once it says no, what there is so far is given back.
pub fn by_forces(network: &Network, steps: usize, mut go_on: impl FnMut() -> bool) -> Vec<[f32; 2]> {
    let n = network.nodes();
    let plain = network.without_loops().symmetrised();
    let components = network.components();
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); components.count];
    for (i, c) in components.of.iter().enumerate() {
        members[*c as usize].push(i as u32);
    }
    let mut local = vec![0_u32; n];
    let mut parts: Vec<(Vec<u32>, Vec<[f64; 2]>)> = Vec::with_capacity(members.len());
    for nodes in members {
        for (at, i) in nodes.iter().enumerate() {
            local[*i as usize] = at as u32;
        }
        let rows: Vec<Vec<u32>> =
            nodes.iter().map(|i| plain.neighbours(*i).iter().map(|j| local[*j as usize]).collect()).collect();
        let mut places = beginning(&rows);
        relax(&rows, &mut places, steps, &mut go_on);
        upright(&mut places);
        parts.push((nodes, places));
    }
    beside(parts, n)
}

/// Steps from `start` to all nodes of a connected part.
fn distances(rows: &[Vec<u32>], start: usize) -> Vec<f64> {
    let mut far = vec![f64::INFINITY; rows.len()];
    far[start] = 0.0;
    let mut queue = vec![start as u32];
    let mut at = 0;
    while at < queue.len() {
        let i = queue[at] as usize;
        at += 1;
        for j in &rows[i] {
            if far[*j as usize].is_infinite() {
                far[*j as usize] = far[i] + 1.0;
                queue.push(*j);
            }
        }
    }
    far
}

/// A connected part by its distances from far nodes, in the two directions in which they differ most.
fn beginning(rows: &[Vec<u32>]) -> Vec<[f64; 2]> {
    let n = rows.len();
    let mut columns: Vec<Vec<f64>> = Vec::new();
    let mut nearest = vec![f64::INFINITY; n];
    let mut pivot = 0;
    for _ in 0..PIVOTS.min(n) {
        let far = distances(rows, pivot);
        for (near, d) in nearest.iter_mut().zip(&far) {
            *near = near.min(*d);
        }
        pivot = (0..n).max_by(|a, b| nearest[*a].total_cmp(&nearest[*b]).then(b.cmp(a))).unwrap_or(0);
        let mean = far.iter().sum::<f64>() / n as f64;
        columns.push(far.iter().map(|d| d - mean).collect());
    }
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let m = columns.len();
    let gram: Vec<Vec<f64>> = columns.iter().map(|a| columns.iter().map(|b| dot(a, b)).collect()).collect();
    let mut axes: Vec<Vec<f64>> = Vec::new();
    for axis in 0..2_usize {
        // Power iteration from an uneven start, kept clear of the axis before.
        let mut v: Vec<f64> = (0..m).map(|i| 1.0 + 0.37 * ((i * (axis + 2)) % 5) as f64).collect();
        for _ in 0..100 {
            for other in &axes {
                let share = dot(&v, other);
                v.iter_mut().zip(other).for_each(|(x, o)| *x -= share * o);
            }
            let next: Vec<f64> = gram.iter().map(|row| dot(row, &v)).collect();
            let size = dot(&next, &next).sqrt();
            if size < 1e-9 {
                break;
            }
            v = next.iter().map(|x| x / size).collect();
        }
        let size = dot(&v, &v).sqrt().max(1e-300);
        v.iter_mut().for_each(|x| *x /= size);
        axes.push(v);
    }
    let place = |i: usize| -> [f64; 2] {
        let along = |axis: &[f64]| columns.iter().zip(axis).map(|(c, a)| c[i] * a).sum::<f64>();
        // Nodes with the same distances would lie on each other: a little of the golden spiral parts them.
        let turn = 2.399_963_229_728_653 * i as f64;
        let aside = 0.3 * ((i as f64 + 1.0) / n as f64).sqrt();
        [along(&axes[0]) + aside * turn.cos(), along(&axes[1]) + aside * turn.sin()]
    };
    let mut places: Vec<[f64; 2]> = (0..n).map(place).collect();
    // Edges about 1 long.
    let edges = rows.iter().enumerate().flat_map(|(i, row)| row.iter().map(move |j| (i, *j as usize)));
    let (sum, count) = edges.fold((0.0, 0.0), |(sum, count), (i, j)| {
        let [x, y] = [0, 1].map(|a| places[i][a] - places[j][a]);
        (sum + x.hypot(y), count + 1.0)
    });
    let scale = if sum > 0.0 { count / sum } else { 1.0 };
    places.iter_mut().flatten().for_each(|x| *x *= scale);
    places
}

/// Forces under a falling temperature.
fn relax(rows: &[Vec<u32>], places: &mut [[f64; 2]], steps: usize, go_on: &mut impl FnMut() -> bool) {
    let n = places.len();
    if n < 2 {
        return;
    }
    let entries = rows.iter().map(Vec::len).sum::<usize>();
    let taken = |degree: usize| match entries <= SPRINGS {
        true => degree,
        false => (degree * SPRINGS / entries).max(LEAST_SPRINGS).min(degree),
    };
    let hottest = 0.6 * (n as f64).sqrt().min(8.0);
    for step in 0..steps {
        if !go_on() {
            return;
        }
        let left = 1.0 - step as f64 / steps as f64;
        let temperature = hottest * left * left + 0.01;
        let tree = Squares::new(places);
        let forces: Vec<[f64; 2]> = (0..n)
            .map(|i| {
                let mut force = tree.push(places, i);
                let (row, taken) = (&rows[i], taken(rows[i].len()));
                // Where some stand for all, each pulls for as many.
                let share = row.len() as f64 / taken.max(1) as f64;
                for at in 0..taken {
                    let j = match taken == row.len() {
                        true => row[at],
                        false => row[(i + step + at * row.len() / taken) % row.len()],
                    };
                    let [x, y] = [0, 1].map(|a| places[j as usize][a] - places[i][a]);
                    let pull = share * x.hypot(y);
                    force[0] += x * pull;
                    force[1] += y * pull;
                }
                force
            })
            .collect();
        for (place, force) in places.iter_mut().zip(forces) {
            let size = force[0].hypot(force[1]);
            if size > 0.0 {
                let by = size.min(temperature) / size;
                place[0] += by * force[0];
                place[1] += by * force[1];
            }
        }
    }
}

/// A quadtree with the mean of what lies in every square.
struct Squares {
    /// Middle and half side.
    squares: Vec<([f64; 2], f64)>,
    /// Sum of places, and how many.
    sums: Vec<([f64; 2], f64)>,
    /// First of four children, or none.
    children: Vec<u32>,
    /// Places `[n]` sorted by the squares that hold them, and each square's first and end.
    order: Vec<u32>,
    ranges: Vec<(u32, u32)>,
}

/// Bodies in a square that is not split.
const LEAF: u32 = 6;

/// Deepest square: places that are the same are never parted.
const DEEPEST: u32 = 40;

impl Squares {
    fn new(places: &[[f64; 2]]) -> Self {
        let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
        for place in places {
            for a in 0..2 {
                low[a] = low[a].min(place[a]);
                high[a] = high[a].max(place[a]);
            }
        }
        let half = 0.5 * (high[0] - low[0]).max(high[1] - low[1]).max(1e-9) * 1.000_001;
        let middle = [0.5 * (low[0] + high[0]), 0.5 * (low[1] + high[1])];
        let n = places.len() as u32;
        let mut tree = Self {
            squares: vec![(middle, half)],
            sums: Vec::new(),
            children: Vec::new(),
            order: (0..n).collect(),
            ranges: vec![(0, n)],
        };
        let mut depths = vec![0_u32];
        let mut at = 0;
        while at < tree.squares.len() {
            let (first, end) = tree.ranges[at];
            let (middle, half) = tree.squares[at];
            let own = &mut tree.order[first as usize..end as usize];
            let sum = own.iter().fold([0.0; 2], |sum, i| {
                let place = places[*i as usize];
                [sum[0] + place[0], sum[1] + place[1]]
            });
            tree.sums.push((sum, f64::from(end - first)));
            if end - first <= LEAF || depths[at] == DEEPEST {
                tree.children.push(super::NONE);
                at += 1;
                continue;
            }
            let quarter = |i: &u32| {
                let place = places[*i as usize];
                2 * usize::from(place[1] > middle[1]) + usize::from(place[0] > middle[0])
            };
            own.sort_by_key(quarter);
            let mut counts = [0_u32; 4];
            own.iter().for_each(|i| counts[quarter(i)] += 1);
            tree.children.push(tree.squares.len() as u32);
            let mut from = first;
            for (q, count) in counts.into_iter().enumerate() {
                let side = |positive: bool| if positive { 0.5 * half } else { -0.5 * half };
                let centre = [middle[0] + side(q % 2 == 1), middle[1] + side(q >= 2)];
                tree.squares.push((centre, 0.5 * half));
                tree.ranges.push((from, from + count));
                depths.push(depths[at] + 1);
                from += count;
            }
            at += 1;
        }
        tree
    }

    /// What pushes node `i` away from all others: 1 / distance each.
    fn push(&self, places: &[[f64; 2]], i: usize) -> [f64; 2] {
        let here = places[i];
        let mut force = [0.0; 2];
        let mut add = |there: [f64; 2], count: f64| {
            let [x, y] = [here[0] - there[0], here[1] - there[1]];
            // Those that share a place would push without end.
            let square = (x * x + y * y).max(1e-4);
            force[0] += count * x / square;
            force[1] += count * y / square;
        };
        let mut open = vec![0_u32];
        while let Some(at) = open.pop() {
            let at = at as usize;
            let (sum, count) = self.sums[at];
            if count == 0.0 {
                continue;
            }
            let mean = [sum[0] / count, sum[1] / count];
            let far = (here[0] - mean[0]).hypot(here[1] - mean[1]);
            if 2.0 * self.squares[at].1 < OPEN * far {
                add(mean, count);
            } else if self.children[at] == super::NONE {
                let (first, end) = self.ranges[at];
                for j in &self.order[first as usize..end as usize] {
                    if *j as usize != i {
                        add(places[*j as usize], 1.0);
                    }
                }
            } else {
                open.extend(self.children[at]..self.children[at] + 4);
            }
        }
        force
    }
}

/// Turns a part so that it is as wide as it can be: windows are.
fn upright(places: &mut [[f64; 2]]) {
    let n = places.len().max(1) as f64;
    let mean = [0, 1].map(|a| places.iter().map(|p| p[a]).sum::<f64>() / n);
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for place in places.iter_mut() {
        let [x, y] = [place[0] - mean[0], place[1] - mean[1]];
        *place = [x, y];
        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    // Round parts have no long side; noise would turn them.
    if (xx - yy).hypot(2.0 * xy) < 0.05 * (xx + yy) {
        return;
    }
    let angle = 0.5 * (2.0 * xy).atan2(xx - yy);
    let (sin, cos) = angle.sin_cos();
    for place in places {
        let [x, y] = *place;
        *place = [cos * x + sin * y, cos * y - sin * x];
    }
}

/// Sets parts side by side: the largest first, in rows about as wide as all is high.
fn beside(mut parts: Vec<(Vec<u32>, Vec<[f64; 2]>)>, n: usize) -> Vec<[f32; 2]> {
    let bounds = |places: &[[f64; 2]]| {
        let edge = |a: usize, most: bool| {
            let better = |x: f64, y: f64| if most { x.max(y) } else { x.min(y) };
            places.iter().map(|p| p[a]).fold(if most { f64::NEG_INFINITY } else { f64::INFINITY }, better)
        };
        [[edge(0, false), edge(1, false)], [edge(0, true), edge(1, true)]]
    };
    // Equal parts stay in the order of their first nodes.
    parts.sort_by_key(|(nodes, _)| std::cmp::Reverse(nodes.len()));
    let boxes: Vec<_> = parts.iter().map(|(_, places)| bounds(places)).collect();
    let area: f64 = boxes.iter().map(|b| (b[1][0] - b[0][0] + GAP) * (b[1][1] - b[0][1] + GAP)).sum();
    let widest = boxes.iter().map(|b| b[1][0] - b[0][0]).fold(0.0, f64::max);
    let width = widest.max(1.3 * area.sqrt());
    let mut out = vec![[0.0_f32; 2]; n];
    let (mut x, mut y, mut tall) = (0.0, 0.0, 0.0_f64);
    let mut ends = [0.0_f64; 2];
    for ((nodes, places), [low, high]) in parts.iter().zip(&boxes) {
        if x > 0.0 && x + high[0] - low[0] > width {
            (x, y, tall) = (0.0, y + tall + GAP, 0.0);
        }
        for (i, place) in nodes.iter().zip(places) {
            out[*i as usize] = [(x + place[0] - low[0]) as f32, (y + place[1] - low[1]) as f32];
        }
        ends = [ends[0].max(x + high[0] - low[0]), ends[1].max(y + high[1] - low[1])];
        tall = tall.max(high[1] - low[1]);
        x += high[0] - low[0] + GAP;
    }
    for place in &mut out {
        place[0] -= 0.5 * ends[0] as f32;
        place[1] -= 0.5 * ends[1] as f32;
    }
    out
}
