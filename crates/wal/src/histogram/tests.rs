#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "what is exact is compared as the histogram counts"
)]

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn histogram(sizes: &[u64]) -> Histogram {
    let recorder = Recorder::default();
    for (at, &size) in sizes.iter().enumerate() {
        if at % 2 == 0 {
            recorder.record(size);
        } else {
            recorder.record_alone(size);
        }
    }
    recorder.read()
}

/// Sizes of every order: latencies are met from nanoseconds to minutes.
fn size() -> impl Strategy<Value = u64> {
    (0..64_u32, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)
}

#[test]
fn buckets_follow_each_other_without_gaps_up_to_the_largest_number() {
    assert_eq!((least_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
    assert_eq!(last_of(BUCKETS - 1), u64::MAX);
    for bucket in 0..BUCKETS {
        assert_eq!(bucket_of(least_of(bucket)), bucket);
        assert_eq!(bucket_of(last_of(bucket)), bucket);
        assert!(bucket == 0 || last_of(bucket - 1) + 1 == least_of(bucket));
    }
}

#[test]
fn of_nothing_everything_is_zero() {
    let none = Histogram::default();
    assert_eq!(
        (none.count(), none.p50(), none.p99(), none.max()),
        (0, 0, 0, 0)
    );
    assert!(none.mean() == 0.0);
    assert_eq!(serde_json::from_str::<Histogram>("{}").unwrap(), none);
}

proptest! {
    #[test]
    fn a_quantile_is_within_an_eighth_of_the_exact_one(
        mut sizes in vec(size(), 1..300),
        percent in 0..=100_u32,
    ) {
        let q = f64::from(percent) / 100.0;
        let found = histogram(&sizes).quantile(q);
        sizes.sort_unstable();
        let rank = (sizes.len() as f64 * q).ceil() as usize;
        let exact = sizes[rank.max(1) - 1];
        prop_assert!(found.abs_diff(exact) <= exact / 8, "{found} for {exact}");
    }

    #[test]
    fn count_sum_mean_and_max_are_exact(sizes in vec(size().prop_map(|size| size >> 9), 1..300)) {
        let found = histogram(&sizes);
        let sum: u64 = sizes.iter().sum();
        prop_assert_eq!(found.count(), sizes.len() as u64);
        prop_assert_eq!(found.sum(), sum);
        prop_assert_eq!(Some(found.max()), sizes.iter().max().copied());
        prop_assert!((found.mean() - sum as f64 / sizes.len() as f64).abs() <= found.mean() * 1e-9);
    }

    #[test]
    fn a_merge_counts_what_both_counted(one in vec(size(), 0..50), other in vec(size(), 0..50)) {
        let mut merged = histogram(&one);
        merged.merge(&histogram(&other));
        prop_assert_eq!(merged, histogram(&[one, other].concat()));
    }

    #[test]
    fn a_difference_counts_what_came_since(before in vec(size(), 0..50), since in vec(size(), 0..50)) {
        let earlier = histogram(&before);
        let later = histogram(&[before, since.clone()].concat());
        let (found, exact) = (later.since(&earlier), histogram(&since));
        prop_assert_eq!(&found.buckets, &exact.buckets);
        prop_assert_eq!(found.sum, exact.sum);
        prop_assert!(found.max >= exact.max && found.max - exact.max <= exact.max / 4);
    }

    #[test]
    fn what_is_written_reads_the_same(sizes in vec(size(), 0..50)) {
        let written = histogram(&sizes);
        let text = serde_json::to_string(&written).unwrap();
        prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), written);
    }

    /// The file they are read from is another process's, or another version's.
    #[test]
    fn whatever_is_read_is_counted_in_order(buckets in vec((size(), any::<u64>()), 0..20), max in size()) {
        let text = serde_json::json!({ "buckets": buckets, "max": max }).to_string();
        let read: Histogram = serde_json::from_str(&text).unwrap();
        prop_assert!(read.buckets.is_sorted_by(|a, b| a.0 < b.0));
        prop_assert!(read.quantile(0.5) <= max);
    }
}
