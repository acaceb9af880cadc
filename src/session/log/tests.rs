//! Whole logs on a real disk.
//!
//! Invariant: every byte that a test appends is looked for at its offset.

use super::*;

fn pattern(from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(|i| (i % 251) as u8).collect()
}

fn log(cap: u64) -> (Arc<Log>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Log::create(dir.path().join("p.log"), cap), dir)
}

async fn read_all(log: &Log, mut offset: u64, step: u64) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let chunk = log.read(LogStart::Offset(offset), step).await.unwrap();
        assert_eq!(chunk.runs.iter().map(|r| r.len).sum::<u64>(), chunk.bytes.len() as u64);
        assert_eq!(chunk.offset, offset + chunk.skipped);
        if chunk.bytes.is_empty() {
            return all;
        }
        offset = chunk.offset + chunk.bytes.len() as u64;
        all.extend_from_slice(&chunk.bytes);
    }
}

#[tokio::test]
async fn small_output_touches_no_file_before_it_is_read() {
    let (log, _dir) = log(1 << 30);
    log.append(Stream::Out, b"hello\n").await;
    log.finish();
    let chunk = log.read(LogStart::Offset(0), 100).await.unwrap();
    assert_eq!((chunk.bytes.as_slice(), chunk.total, chunk.ended, chunk.skipped), (&b"hello\n"[..], 6, true, 0));
    assert!(!log.path().exists());
    log.flush().await;
    assert_eq!(std::fs::read(log.path()).unwrap(), b"hello\n");
    assert_eq!(log.lost(), None);
}

#[tokio::test]
async fn large_output_is_whole_on_disk_and_bounded_in_memory() {
    let (log, _dir) = log(1 << 30);
    let mut total = 0;
    for len in [1, 65_536, 1 << 20, 777, 3 << 20, 1 << 20, 9] {
        log.append(Stream::Out, &pattern(total, len)).await;
        total += len as u64;
    }
    assert_eq!(read_all(&log, 0, 300_000).await, pattern(0, usize::try_from(total).unwrap()));
    log.flush().await;
    assert!(total - lock(&log.inner.state).memory.first() <= RING + memory::BLOCK as u64 * 2);
    assert!(lock(&log.inner.state).memory.held() <= 8 * memory::BLOCK);
    log.finish();
    while lock(&log.inner.state).memory.held() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(read_all(&log, 12_345, 1 << 20).await, pattern(12_345, usize::try_from(total).unwrap() - 12_345));
    assert_eq!(std::fs::read(log.path()).unwrap().len() as u64, total);
    // What was left behind still writes.
    log.append(Stream::Out, &pattern(total, 10)).await;
    log.flush().await;
    assert_eq!(log.read(LogStart::TailBytes(10), 100).await.unwrap().bytes, pattern(total, 10));
    assert_eq!(std::fs::read(log.path()).unwrap(), pattern(0, usize::try_from(total).unwrap() + 10));
}

#[tokio::test]
async fn over_the_cap_the_middle_is_skipped_and_said() {
    let (log, _dir) = log(1 << 20);
    let mib = 1_u64 << 20;
    for i in 0..8 {
        log.append(Stream::Out, &pattern(i * mib, 1 << 20)).await;
    }
    log.finish();
    log.flush().await;
    assert_eq!(log.total(), 8 * mib);
    let segment = mib / 8;
    let (lost, reason) = log.lost().expect("some is lost");
    assert_eq!(lost, 7 * mib - 2 * segment);
    assert!(reason.contains("over its cap of 1048576 bytes"), "{reason}");
    let head = log.read(LogStart::Offset(mib - 10), 100).await.unwrap();
    assert_eq!((head.skipped, head.bytes), (0, pattern(mib - 10, 10)));
    let after = log.read(LogStart::Offset(mib), 100).await.unwrap();
    assert_eq!((after.offset, after.skipped), (8 * mib - 2 * segment, lost));
    assert_eq!(after.bytes, pattern(after.offset, 100));
    let within = log.read(LogStart::Offset(5 * mib), 100).await.unwrap();
    assert_eq!((within.offset, within.skipped), (8 * mib - 2 * segment, 3 * mib - 2 * segment));
    assert_eq!(log.read(LogStart::TailBytes(50), 100).await.unwrap().bytes, pattern(8 * mib - 50, 50));
}

#[tokio::test]
async fn streams_are_known_in_memory_and_on_disk() {
    let (log, dir) = log(1 << 30);
    let mut expected = Vec::new();
    for i in 0..2000_u64 {
        let stream = if i % 3 == 1 { Stream::Err } else { Stream::Out };
        let piece = pattern(i, 400);
        log.append(stream, &piece).await;
        expected.extend(std::iter::repeat_n(stream, 400));
    }
    log.finish();
    log.flush().await;
    assert!(dir.path().join("p.log.idx").exists());
    for (from, max) in [(0, 1000), (399, 2), (400_000, 5000), (799_000, 2000)] {
        let chunk = log.read(LogStart::Offset(from), max).await.unwrap();
        let got: Vec<Stream> = chunk.runs.iter().flat_map(|r| std::iter::repeat_n(r.stream, usize::try_from(r.len).unwrap())).collect();
        let from = usize::try_from(from).unwrap();
        assert_eq!(got, &expected[from..from + chunk.bytes.len()], "from {from}");
    }
}

#[tokio::test]
async fn the_last_lines_are_found() {
    let (log, _dir) = log(1 << 30);
    let tail = |n| {
        let log = log.clone();
        async move { String::from_utf8(log.read(LogStart::TailLines(n), 1 << 20).await.unwrap().bytes).unwrap() }
    };
    assert_eq!(tail(3).await, "");
    log.append(Stream::Out, b"one\ntwo\nthree\n").await;
    assert_eq!((tail(0).await.as_str(), tail(1).await.as_str(), tail(2).await.as_str()), ("", "three\n", "two\nthree\n"));
    assert_eq!((tail(3).await.as_str(), tail(9).await.as_str()), ("one\ntwo\nthree\n", "one\ntwo\nthree\n"));
    log.append(Stream::Out, b"open").await;
    assert_eq!((tail(1).await.as_str(), tail(2).await.as_str()), ("open", "three\nopen"));
    // Lines longer than the window are cut at it.
    log.append(Stream::Out, &vec![b'x'; 3 << 20]).await;
    assert_eq!(tail(1).await.len() as u64, LINES_WITHIN);
}

#[tokio::test]
async fn watchers_wake_when_it_grows_and_when_it_ends() {
    let (log, _dir) = log(1 << 30);
    let watcher = |offset| {
        let log = log.clone();
        tokio::spawn(async move { log.grown(offset).await })
    };
    let (first, end) = (watcher(0), watcher(5));
    tokio::task::yield_now().await;
    log.append(Stream::Out, b"12345").await;
    first.await.unwrap();
    assert!(!end.is_finished());
    log.finish();
    end.await.unwrap();
}

#[tokio::test]
async fn a_disk_that_takes_nothing_loses_output_but_not_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::create(dir.path().join("no-such-folder/p.log"), 1 << 30);
    for i in 0..20 {
        log.append(Stream::Out, &pattern(i << 20, 1 << 20)).await;
    }
    log.flush().await;
    assert!(lock(&log.inner.state).memory.held() <= 8 * memory::BLOCK);
    let (lost, reason) = log.lost().expect("lost");
    assert_eq!(lost, 20 << 20);
    assert!(reason.contains("could not be written to"), "{reason}");
    // The end is still in memory, and what is gone is skipped with a count.
    let chunk = log.read(LogStart::Offset(0), 1000).await.unwrap();
    assert!(chunk.skipped > 0 && chunk.bytes == pattern(chunk.offset, 1000));
    log.finish();
    assert_eq!(log.read(LogStart::TailBytes(5), 5).await.unwrap().bytes, pattern((20 << 20) - 5, 5));
}

#[tokio::test]
async fn a_full_disk_is_counted_byte_for_byte() {
    // /dev/full takes opens and refuses every write, like a full disk.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.log");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let log = Log::create(path, 1 << 30);
    log.append(Stream::Out, &pattern(0, 1 << 20)).await;
    log.flush().await;
    let (lost, reason) = log.lost().expect("lost");
    assert_eq!(lost, 1 << 20);
    assert!(reason.contains("No space left"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_follow_a_flood_without_a_gap() {
    let (log, _dir) = log(1 << 30);
    let total = 24_u64 << 20;
    let reader = {
        let log = log.clone();
        tokio::spawn(async move {
            let mut offset = 0;
            loop {
                log.grown(offset).await;
                let chunk = log.read(LogStart::Offset(offset), 200_000).await.unwrap();
                assert_eq!((chunk.offset, chunk.skipped), (offset, 0));
                assert!(chunk.bytes.iter().zip(offset..).all(|(b, i)| u64::from(*b) == i % 251));
                offset += chunk.bytes.len() as u64;
                if chunk.ended && offset == chunk.total {
                    return offset;
                }
            }
        })
    };
    let mut at = 0;
    while at < total {
        log.append(Stream::Out, &pattern(at, 100_000)).await;
        at += 100_000;
    }
    log.finish();
    assert_eq!(reader.await.unwrap(), at);
}

/// What a random test does.
#[derive(Clone, Debug)]
enum Step {
    Append(usize, bool),
    Read(u64, u64),
    Tail(u64),
    Flush,
}

fn steps() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    use proptest::prelude::*;
    let step = prop_oneof![
        4 => (1_usize..300_000, any::<bool>()).prop_map(|(len, err)| Step::Append(len, err)),
        4 => (0_u64..2_000_000, 1_u64..400_000).prop_map(|(from, max)| Step::Read(from, max)),
        1 => (1_u64..400_000).prop_map(Step::Tail),
        1 => Just(Step::Flush),
    ];
    proptest::collection::vec(step, 1..40)
}

/// Checks a chunk against everything that was appended; with a cap some of it may be skipped, but never without a count.
fn check(chunk: &Chunk, bytes: &[u8], streams: &[Stream], from: u64, capped: bool) {
    let from = from.min(bytes.len() as u64);
    assert_eq!((chunk.total, chunk.offset), (bytes.len() as u64, from + chunk.skipped));
    assert!(capped || chunk.skipped == 0);
    let mut at = usize::try_from(chunk.offset).unwrap();
    assert!(chunk.bytes == bytes[at..at + chunk.bytes.len()], "wrong bytes from {at}");
    let end = at + chunk.bytes.len();
    for run in &chunk.runs {
        let len = usize::try_from(run.len).unwrap();
        assert!(streams[at..at + len].iter().all(|s| *s == run.stream), "wrong stream from {at}");
        at += len;
    }
    assert_eq!(at, end);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 24, ..Default::default() })]

    #[test]
    fn any_mix_of_writes_and_reads_is_exact(steps in steps(), cap in proptest::prop_oneof![proptest::prelude::Just(1_u64 << 30), 1_u64..600_000]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (log, _dir) = log(cap);
            let capped = cap < 1 << 30;
            let (mut all, mut streams) = (Vec::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Append(len, err) => {
                        let stream = if err { Stream::Err } else { Stream::Out };
                        let piece = pattern(all.len() as u64, len);
                        log.append(stream, &piece).await;
                        all.extend_from_slice(&piece);
                        streams.resize(all.len(), stream);
                    }
                    Step::Read(from, max) => check(&log.read(LogStart::Offset(from), max).await.unwrap(), &all, &streams, from, capped),
                    Step::Tail(bytes) => {
                        let chunk = log.read(LogStart::TailBytes(bytes), bytes).await.unwrap();
                        check(&chunk, &all, &streams, (all.len() as u64).saturating_sub(bytes), capped);
                    }
                    Step::Flush => log.flush().await,
                }
            }
            log.finish();
            log.flush().await;
            let mut offset = 0;
            while offset < all.len() as u64 {
                let chunk = log.read(LogStart::Offset(offset), 1 << 20).await.unwrap();
                check(&chunk, &all, &streams, offset, capped);
                assert!(!chunk.bytes.is_empty(), "nothing at {offset}");
                offset = chunk.offset + chunk.bytes.len() as u64;
            }
        });
    }
}

/// A log whose disk is full from the beginning.
fn full_disk() -> (Arc<Log>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.log");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    (Log::create(path, 1 << 30), dir)
}

/// Appends so many bytes of the pattern, for ever waiting where it has to.
fn writing(log: &Arc<Log>, total: u64) -> tokio::task::JoinHandle<()> {
    let log = log.clone();
    tokio::spawn(async move {
        for at in (0..total).step_by(100_000) {
            let stream = if at % 300_000 == 0 { Stream::Err } else { Stream::Out };
            log.append(stream, &pattern(at, 100_000)).await;
        }
    })
}

#[tokio::test]
async fn a_full_disk_loses_nothing_for_the_caller_and_memory_stays_bounded() {
    let (log, _dir) = full_disk();
    let hold = log.hold(Reader::Caller, 0);
    let total = 30_000_000;
    let writer = writing(&log, total);
    let mut offset = 0;
    while offset < total {
        log.grown(offset).await;
        let chunk = log.read(LogStart::Offset(offset), 333_333).await.unwrap();
        assert_eq!((chunk.offset, chunk.skipped), (offset, 0));
        assert!(chunk.bytes == pattern(offset, chunk.bytes.len()));
        let mut at = offset;
        for run in &chunk.runs {
            assert_eq!(run.stream == Stream::Err, (at / 100_000) % 3 == 0, "at {at}");
            at += run.len;
        }
        assert!(lock(&log.inner.state).memory.held() as u64 <= BEHIND + 4 * memory::BLOCK as u64);
        offset += chunk.bytes.len() as u64;
        hold.passed(offset);
    }
    writer.await.unwrap();
    log.finish();
    log.flush().await;
    assert_eq!(log.lost().unwrap().0, total);
    log.told();
    drop(hold);
    assert!(lock(&log.inner.state).memory.held() <= 2 * REST, "an ended log keeps only its end");
    let end = log.read(LogStart::TailBytes(100), 100).await.unwrap();
    assert_eq!(end.bytes, pattern(total - 100, 100));
}

#[tokio::test]
async fn nobody_waits_for_a_reader_that_is_gone() {
    let (log, _dir) = full_disk();
    let hold = log.hold(Reader::Caller, 0);
    let writer = writing(&log, 20_000_000);
    log.grown(BEHIND - 1).await;
    tokio::task::yield_now().await;
    assert!(!writer.is_finished() && log.total() <= BEHIND);
    assert_eq!(log.read(LogStart::Offset(0), 10).await.unwrap().bytes, pattern(0, 10));
    drop(hold);
    writer.await.unwrap();
    assert_eq!(log.total(), 20_000_000);
}

#[tokio::test]
async fn the_caller_is_waited_for_without_end_and_a_watcher_for_a_while() {
    let (log, _dir) = full_disk();
    let caller = log.hold(Reader::Caller, 0);
    let watcher = log.hold(Reader::Watcher, 0);
    let writer = writing(&log, 20_000_000);
    let stalled = async {
        while !log.stalled() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(hold::PATIENCE * 100, stalled).await.expect("that it waits is said");
    assert!(!writer.is_finished());
    // The caller reads all there is; the watcher has been given up.
    let reading = async {
        while !writer.is_finished() {
            caller.passed(log.total());
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(hold::PATIENCE * 100, reading).await.expect("the caller alone is waited for");
    assert!(!log.stalled());
    drop(watcher);
}

#[tokio::test]
async fn a_disk_with_room_again_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("later");
    let log = Log::create(folder.join("p.log"), 1 << 30);
    let hold = log.hold(Reader::Caller, 0);
    log.append(Stream::Err, &pattern(0, 1 << 20)).await;
    log.flush().await;
    std::fs::create_dir(&folder).unwrap();
    log.append(Stream::Out, &pattern(1 << 20, 2 << 20)).await;
    log.flush().await;
    assert_eq!(log.lost().unwrap().0, 1 << 20);
    assert_eq!(read_all(&log, 0, 300_000).await, pattern(0, 3 << 20));
    hold.passed(3 << 20);
    let chunk = log.read(LogStart::Offset(0), 100).await.unwrap();
    assert_eq!((chunk.skipped, chunk.bytes), (1 << 20, pattern(1 << 20, 100)));
    assert_eq!(chunk.runs, [Run { stream: Stream::Out, len: 100 }], "the records of a full disk come later");
}

#[tokio::test]
async fn over_the_cap_the_caller_still_gets_everything() {
    let (log, _dir) = log(1 << 20);
    let hold = log.hold(Reader::Caller, 0);
    let total = 20_000_000;
    let writer = writing(&log, total);
    let mut offset = 0;
    while offset < total {
        log.grown(offset).await;
        let chunk = log.read(LogStart::Offset(offset), 50_000).await.unwrap();
        assert_eq!((chunk.offset, chunk.skipped), (offset, 0));
        assert!(chunk.bytes == pattern(offset, chunk.bytes.len()));
        offset += chunk.bytes.len() as u64;
        hold.passed(offset);
    }
    writer.await.unwrap();
}
