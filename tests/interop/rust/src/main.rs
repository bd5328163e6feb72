//! main HOST PORT: the crate mrpc. Prints what expected.txt holds.
use mrpc::{Client, RpcError};
use rmpv::Value;

fn map(pairs: &[(&str, Value)]) -> Value {
    Value::Map(
        pairs
            .iter()
            .map(|(key, value)| (Value::from(*key), value.clone()))
            .collect(),
    )
}

fn get<'a>(value: &'a Value, name: &str) -> &'a Value {
    let pairs = value.as_map().expect("a map");
    &pairs.iter().find(|(key, _)| key.as_str() == Some(name)).expect(name).1
}

async fn ask(client: &Client, method: &str, params: &Value) -> Value {
    client.send_request(method, &[params.clone()]).await.expect(method)
}

fn show(title: &str, got: &Value) {
    let wait = match get(got, "retry_after_ms").as_i64().expect("a number") {
        0 => "now",
        -1 => "never",
        _ => "later",
    };
    let limit = &get(got, "limits").as_array().expect("an array")[0];
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    println!(
        "{title}: {} {} {} {} {} {} {wait}",
        get(got, "allowed"),
        text(get(got, "action")),
        text(get(got, "decided_by")),
        text(get(limit, "name")),
        get(limit, "limit"),
        get(limit, "remaining"),
    );
}

async fn repeat(client: &Client, times: usize, title: &str, method: &str, params: Value) {
    for _ in 0..times {
        show(title, &ask(client, method, &params).await);
    }
}

async fn rates(client: &Client) {
    let first = ("attributes", map(&[("client", "rust-0".into())]));
    let second = ("attributes", map(&[("client", "rust-1".into())]));
    repeat(client, 4, "check", "check", map(&[first])).await;
    repeat(
        client,
        1,
        "check too dear",
        "check",
        map(&[second.clone(), ("cost", 4.into())]),
    )
    .await;
    repeat(
        client,
        2,
        "same id",
        "check",
        map(&[second.clone(), ("id", "rust-once".into())]),
    )
    .await;
    repeat(
        client,
        2,
        "peek",
        "check",
        map(&[second.clone(), ("peek", true.into())]),
    )
    .await;
    let requests = map(&[("requests", Value::Array(vec![map(&[second]); 3]))]);
    for got in ask(client, "check_many", &requests).await.as_array().expect("an array") {
        show("check many", got);
    }
    repeat(
        client,
        3,
        "throttle",
        "throttle",
        map(&[("key", "rust".into()), ("rate", "2/d".into())]),
    )
    .await;
}

async fn leases(client: &Client) {
    let pool = map(&[("attributes", map(&[("pool", "rust".into())]))]);
    let held = ask(client, "check", &pool).await;
    show("lease", &held);
    show("lease taken", &ask(client, "check", &pool).await);
    let lease = get(&get(&held, "limits")[0], "lease");
    for title in ["release", "release again"] {
        let got = ask(client, "release", &map(&[("lease", lease.clone())])).await;
        println!("{title}: {}", get(&got, "released"));
    }
    show("lease", &ask(client, "check", &pool).await);
}

async fn fails(client: &Client, title: &str, method: &str) {
    match client.send_request(method, &[map(&[("cost", 1.into())])]).await {
        Err(RpcError::Service(error)) => {
            let text = error.value.as_str().expect("text").to_owned();
            println!("{title}: {}", text.split(':').next().unwrap_or_default());
        }
        other => panic!("{title}: {other:?}"),
    }
}

async fn at_once(client: &Client) {
    let params = [map(&[("attributes", map(&[("client", "rust-2".into())]))])];
    let mut handles = Vec::new();
    for _ in 0..20 {
        handles.push(client.start_request("check", &params).await.expect("sent"));
    }
    let (mut allowed, count) = (0, handles.len());
    for handle in handles {
        let got = handle.response().await.expect("answered");
        allowed += i32::from(get(&got, "allowed").as_bool().expect("a bool"));
    }
    println!("at once: {allowed} of {count}");
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let address = format!("{}:{}", arguments[1], arguments[2]);
    let client = Client::connect_tcp(&address, ()).await.expect("connected");
    rates(&client).await;
    leases(&client).await;
    fails(&client, "unknown method", "no_such_method").await;
    fails(&client, "no attributes", "check").await;
    at_once(&client).await;
}
