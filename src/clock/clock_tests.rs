//! What clocks and random sources promise: see `clock`.

use rand::Rng;

use super::*;

const START: Timestamp = Timestamp::constant(1_750_000_000, 0);

#[test]
fn a_follower_moves_with_its_base_until_it_is_moved_by_itself() {
    let base = Clock::frozen(START);
    let follower = base.follower();
    let seconds = Duration::from_secs;
    base.advance(seconds(10));
    assert_eq!((follower.now(), follower.is_plain(), follower.mode()), (base.now(), true, ClockMode::Frozen));
    follower.advance(seconds(60));
    assert_eq!((follower.instant().since(base.instant()), follower.follows()), (seconds(60), false));
    base.advance(seconds(5));
    assert_eq!(follower.instant().since(base.instant()), seconds(60));
    let stood = follower.freeze();
    base.advance(seconds(500));
    assert_eq!(follower.now(), stood);
    // 75 s of 515 s have passed for it, so 440 s are made up for.
    let joined = follower.follow();
    assert_eq!((joined.wall, joined.instant), (base.now().wall, stood.instant.plus(seconds(440))));
    follower.advance(seconds(1_000));
    let back = follower.follow();
    assert_eq!(back.wall, base.now().wall, "the label goes back");
    assert_eq!(back.instant, joined.instant.plus(seconds(1_000)), "what has passed does not");
    assert!(follower.follows());
}

#[test]
fn another_label_neither_hastens_nor_delays() {
    let clock = Clock::frozen(START);
    let before = clock.advance(Duration::from_secs(9));
    let after = clock.relabel(START - SignedDuration::from_hours(48));
    assert_eq!((after.instant, after.wall), (before.instant, START - SignedDuration::from_hours(48)));
    let again = clock.restart();
    assert_eq!((again.instant, again.wall, clock.mode()), (before.instant, START, ClockMode::Frozen));
}

#[test]
fn a_restored_follower_goes_on_from_its_own_moment() {
    let (old, new) = (Clock::frozen(START), Clock::frozen(START));
    old.advance(Duration::from_secs(100));
    let (first, second) = (old.follower(), new.follower());
    first.advance(Duration::from_secs(3));
    new.advance(Duration::from_secs(500));
    second.restore(&first.save(), Duration::ZERO);
    assert_eq!(second.instant(), Instant::after_start(Duration::from_secs(103)));
    new.advance(Duration::from_secs(1));
    assert_eq!(second.instant(), Instant::after_start(Duration::from_secs(104)));
    first.freeze();
    second.restore(&first.save(), Duration::ZERO);
    new.advance(Duration::from_secs(1));
    assert_eq!(second.now(), first.now());
}

#[test]
fn sleepers_of_a_follower_wake_by_either_clock() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let base = Clock::frozen(START);
        let follower = base.follower();
        for (mover, seconds) in [(&base, 5), (&follower, 9)] {
            let due = follower.instant().plus(Duration::from_secs(seconds));
            let sleeper = tokio::spawn({
                let follower = follower.clone();
                async move { follower.sleep_until(due).await }
            });
            tokio::task::yield_now().await;
            assert!(!sleeper.is_finished());
            mover.advance(Duration::from_secs(seconds));
            sleeper.await.expect("the sleeper returns");
        }
    });
}

#[test]
fn sources_depend_on_seed_and_name_alone() {
    let draw = |seed: u64, name: &str| Seed::from_number(seed).source(name).next_u64();
    assert_eq!(draw(1, "a"), draw(1, "a"));
    assert_ne!(draw(1, "a"), draw(1, "b"));
    assert_ne!(draw(1, "a"), draw(2, "a"));
}

#[test]
fn a_step_that_began_before_a_restart_does_not_move_the_clock_after_it() {
    let start = Timestamp::UNIX_EPOCH;
    let clock = Clock::frozen(start);
    let saved = clock.save();
    let put_back: [&dyn Fn() -> Now; 2] = [&|| clock.restart(), &|| clock.restore(&saved, Duration::ZERO)];
    for put_back in put_back {
        let life = clock.life();
        assert_ne!(clock.advance_in(life, Duration::from_secs(5)).wall, start);
        put_back();
        assert_eq!(clock.advance_in(life, Duration::from_secs(5)).wall, start);
        assert_ne!(clock.advance(Duration::from_secs(5)).wall, start);
    }
}

#[test]
fn a_saved_clock_keeps_its_form() {
    let form = r#"{"moment":103000000000,"now":"2025-06-15T15:06:40.5Z","frozen":false,"ahead":"-PT1H0.25S"}"#;
    let saved: SavedClock = serde_json::from_str(form).expect("the form of every snapshot so far");
    assert_eq!(saved.ahead, SignedDuration::from_millis(-3_600_250));
    assert_eq!(serde_json::to_string(&saved).expect("it serialises"), form);
}
