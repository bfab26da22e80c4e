//! What it looks like: at the widths of a telephone and of a desk, by day and by night.

use super::rig::rig;
use crate::stores;

const KEY: &str = "telegram:direct:123";

#[tokio::test(flavor = "multi_thread")]
async fn it_fits_a_telephone_and_a_desk_by_day_and_by_night() {
    let store = stores::empty();
    stores::furnished(&store.chats);
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    for (width, height) in [(1280, 800), (390, 844)] {
        rig.screen(width, height).await;
        for scheme in ["light", "dark"] {
            rig.scheme(scheme).await;
            rig.run("location.hash = '#/'").await;
            rig.holds("document.querySelector('#head').hidden").await;
            fits(&rig, width).await;
            rig.picture(&format!("list-{width}-{scheme}")).await;
            rig.open_session(KEY).await;
            rig.shows("Yes please.").await;
            fits(&rig, width).await;
            rig.picture(&format!("conversation-{width}-{scheme}")).await;
            rig.press("d").await;
            rig.holds("document.querySelector('#details svg.plot')")
                .await;
            fits(&rig, width).await;
            rig.picture(&format!("details-{width}-{scheme}")).await;
            rig.press("d").await;
            readable(&rig, scheme).await;
        }
        rig.press("?").await;
        rig.holds("document.querySelector('#help').open").await;
        rig.picture(&format!("help-{width}")).await;
        rig.click("#help-close").await;
        rig.press("/").await;
        rig.press("train").await;
        rig.holds("document.querySelectorAll('#rows mark').length > 1")
            .await;
        rig.click("#filters > summary").await;
        fits(&rig, width).await;
        rig.picture(&format!("search-{width}")).await;
        rig.click("#filters > summary").await;
        rig.click("#query").await;
        rig.press_key(thirtyfour::Key::Escape).await;
        rig.holds("document.querySelectorAll('#rows mark').length === 0")
            .await;
    }
    rig.end().await;
}

/// Nothing sticks out to the side.
pub(super) async fn fits(rig: &super::rig::Rig, width: u32) {
    let widest = rig.number("document.documentElement.scrollWidth").await;
    assert!(widest <= f64::from(width), "{widest} over {width}");
    let out = "[...document.querySelectorAll('#feed, #results, #details')]\
        .filter((e) => e.scrollWidth > e.clientWidth).flatMap((e) => [e.id, ...[...e.querySelectorAll('*')]\
        .filter((c) => c.getBoundingClientRect().right > e.getBoundingClientRect().right + 1)\
        .map((c) => c.tagName + '.' + c.className)]).slice(0, 9).join()";
    assert_eq!(rig.text(out).await, "", "at {width}");
}

/// Text stands out from what is behind it, as WCAG 2 asks for at level AA.
pub(super) async fn readable(rig: &super::rig::Rig, scheme: &str) {
    let lowest = rig
        .text(
            r"(() => {
        const numbers = (color) => color.match(/[\d.]+/g).map(Number);
        const light = (color) => {
            const [r, g, b] = numbers(color).slice(0, 3).map((v) => v / 255)
                .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const behind = (element) => {
            for (let e = element; e; e = e.parentElement) {
                const color = getComputedStyle(e).backgroundColor;
                const [, , , alpha = 1] = numbers(color);
                if (alpha === 1) return color;
            }
            return 'rgb(255, 255, 255)';
        };
        let lowest = [99, ''];
        for (const e of document.querySelectorAll('h1, h2, h3, .text, .note, .flag, time, summary, .mark span, .tool, .bytes pre, .odd')) {
            if (!e.checkVisibility() || e.textContent === '') continue;
            const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
            const contrast = (a + 0.05) / (b + 0.05);
            if (contrast < lowest[0]) lowest = [contrast, e.className || e.tagName];
        }
        return lowest.join(' ');
    })()",
        )
        .await;
    let (contrast, of) = lowest.split_once(' ').unwrap();
    let contrast: f64 = contrast.parse().unwrap();
    assert!(contrast >= 4.5, "{scheme}: {contrast} of {of}");
}
