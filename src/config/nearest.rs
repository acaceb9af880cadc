//! "Did you mean": the known word that is nearest to a wrong one.
//!
//! Invariant: a word that has little in common with every known one has no nearest.

/// Gives the candidate nearest to the word, when it is near enough to be what was meant: at most a third of its letters
/// wrong, two letters in the wrong order counting once, upper and lower case alike; or one begins with the other.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower: Vec<char> = word.to_lowercase().chars().take(64).collect();
    if lower.is_empty() {
        return None;
    }
    candidates
        .into_iter()
        .filter(|candidate| !candidate.is_empty())
        .filter_map(|candidate| {
            let other: Vec<char> = candidate.to_lowercase().chars().take(64).collect();
            let wrong = distance(&lower, &other);
            let begins = lower.len() >= 3 && (other.starts_with(&lower) || (other.len() >= 3 && lower.starts_with(&other)));
            let allowed = (lower.len().max(other.len()) / 3).max(1);
            // A word of two letters with one wrong has nothing left to go by.
            let near = wrong <= allowed && wrong < lower.len().min(other.len());
            (near || begins).then_some((wrong, candidate))
        })
        .min_by_key(|(wrong, _)| *wrong)
        .map(|(_, candidate)| candidate)
}

/// Counts the letters to insert, remove, replace or swap with the next.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_near_one_is_found() {
        let known = ["host", "port", "user", "key", "known_hosts", "timeout", "gpu", "box-2"];
        let table = [
            ("hots", Some("host")),
            ("HOST", Some("host")),
            ("prt", Some("port")),
            ("usr", Some("user")),
            ("time_out", Some("timeout")),
            ("known_host", Some("known_hosts")),
            ("known", Some("known_hosts")),
            ("gpu1", Some("gpu")),
            ("gup", Some("gpu")),
            ("box2", Some("box-2")),
            ("kez", Some("key")),
            ("elephant", None),
            ("", None),
            ("x", None),
            ("zz", None),
        ];
        for (word, expected) in table {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest("a", []), None);
    }
}
