//! What a `tail(50)` of a session of 10,000 messages takes, and its bare query.

use std::time::{Duration, Instant};

use sessionlog::Message;
use sessionlog_postgres::PostgresStore;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::{Failed, TEXT};

/// How often each is asked, in turns.
const TIMES: usize = 1000;

pub(crate) async fn measure(store: &PostgresStore, client: &Client) -> Result<(), Failed> {
    let said = (0..10_000).map(|n| Message::user(format!("{n} {TEXT}")));
    store.set_history("long", said.collect()).await?;
    client.batch_execute("VACUUM ANALYZE bench.lines").await?;
    let id = "SELECT session_id FROM bench.sessions WHERE key = 'long'";
    let id: i64 = client.query_typed(id, &[]).await?[0].get(0);
    let (mut of_store, mut of_query) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let at = Instant::now();
        assert_eq!(store.tail("long", 50).await?.len(), 50);
        of_store.push(at.elapsed());
        let at = Instant::now();
        assert_eq!(bare(client, id).await?.len(), 50);
        of_query.push(at.elapsed());
    }
    let [of_store, of_query] = [of_store, of_query].map(quarter_and_median);
    println!(
        "tail(50): store {:.0?}, bare query {:.0?} (medians), {:.2}x; quickest quarter {:.0?}, \
         {:.0?}, {:.2}x",
        of_store[1],
        of_query[1],
        of_store[1].as_secs_f64() / of_query[1].as_secs_f64(),
        of_store[0],
        of_query[0],
        of_store[0].as_secs_f64() / of_query[0].as_secs_f64(),
    );
    Ok(())
}

async fn bare(client: &Client, id: i64) -> Result<Vec<Message>, Failed> {
    let rows = client
        .query_typed(
            "SELECT line FROM bench.lines WHERE session_id = $1 AND kind = 0
             ORDER BY line_at DESC LIMIT 50",
            &[(&id, Type::INT8)],
        )
        .await?;
    let decoded = rows.iter().map(|row| Message::from_json(row.get(0)));
    Ok(decoded.collect::<Result<_, _>>()?)
}

fn quarter_and_median(mut all: Vec<Duration>) -> [Duration; 2] {
    all.sort_unstable();
    [all[all.len() / 4], all[all.len() / 2]]
}
