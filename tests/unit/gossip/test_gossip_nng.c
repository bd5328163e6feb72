/* Gossip over nng: packets arrive over TCP and TLS, sending never waits, and closing leaves nothing behind. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "gossip/envelope.h"
#include "gossip/gossip_nng.h"
#include "tests/lib/temp_dir.h"

#define ARRIVAL_S 20 /* for a packet that must come; a machine may be slow */

/* One end, and what it received. */
struct end {
    struct hr_gossip *gossip;
    char address[64];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t count, bytes;
    char last[64];
    bool is_held; /* take shall not return */
};

static void take(void *user, struct hr_span packet)
{
    struct end *end = user;
    pthread_mutex_lock(&end->lock);
    end->count++;
    end->bytes += packet.bytes;
    (void)snprintf(end->last, sizeof(end->last), "%.*s", (int)packet.bytes, packet.at);
    pthread_cond_broadcast(&end->changed);
    while (end->is_held) {
        pthread_cond_wait(&end->changed, &end->lock);
    }
    pthread_mutex_unlock(&end->lock);
}

static bool try_open(struct end *end, struct hr_gossip_config config, struct hr_gossip_problem *problem)
{
    *end = (struct end){.count = 0};
    pthread_mutex_init(&end->lock, NULL);
    pthread_cond_init(&end->changed, NULL);
    config.take = take;
    config.user = end;
    end->gossip = hr_gossip_open(&config, problem);
    if (end->gossip == NULL) {
        return false;
    }
    const char *scheme = strncmp(config.listen, "tls", 3) == 0 ? "tls+tcp" : "tcp";
    (void)snprintf(end->address, sizeof(end->address), "%s://127.0.0.1:%u", scheme, hr_gossip_port(end->gossip));
    return true;
}

static void open_end(struct end *end, struct hr_gossip_config config)
{
    struct hr_gossip_problem problem;
    if (!try_open(end, config, &problem)) {
        fail_msg("%s", problem.what);
    }
}

static void open_plain(struct end *end)
{
    open_end(end, (struct hr_gossip_config){.listen = "tcp://127.0.0.1:0"});
}

static void close_end(struct end *end)
{
    hr_gossip_close(end->gossip);
    pthread_cond_destroy(&end->changed);
    pthread_mutex_destroy(&end->lock);
}

static struct timespec after_s(time_t s)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += s;
    return at;
}

/* True where so many packets have come in time. */
static bool await(struct end *end, uint64_t count, time_t s)
{
    struct timespec until = after_s(s);
    int rc = 0;
    pthread_mutex_lock(&end->lock);
    while (end->count < count && rc == 0) {
        rc = pthread_cond_timedwait(&end->changed, &end->lock, &until);
    }
    bool has_come = end->count >= count;
    pthread_mutex_unlock(&end->lock);
    return has_come;
}

static bool send_text(struct end *from, const struct end *to, const char *text)
{
    return hr_gossip_send(from->gossip, hr_span_of(to->address), hr_span_of(text));
}

static void packets_arrive_in_order_and_whole(void **state)
{
    (void)state;
    static char longest[HR_PACKET_BYTES_MAX];
    struct end a, b;
    open_plain(&a);
    open_plain(&b);
    for (unsigned i = 1; i <= 500; i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "packet %u", i);
        assert_true(send_text(&a, &b, text));
        assert_true(i % 50 != 0 || await(&b, i, ARRIVAL_S)); /* no more at a time than the queue has room for */
        assert_true(i % 50 != 0 || strcmp(b.last, text) == 0);
    }
    assert_true(hr_gossip_send(a.gossip, hr_span_of(b.address), (struct hr_span){longest, sizeof(longest)}));
    assert_true(await(&b, 501, ARRIVAL_S));
    assert_true(send_text(&b, &a, "back"));
    assert_true(await(&a, 1, ARRIVAL_S));
    assert_string_equal(a.last, "back");
    assert_int_equal(hr_gossip_counts(a.gossip).sent, 501);
    assert_int_equal(hr_gossip_counts(b.gossip).received, 501);
    close_end(&a);
    close_end(&b);
}

static void a_packet_to_nobody_is_queued_then_dropped_and_never_waits(void **state)
{
    (void)state;
    struct end a, b;
    open_plain(&b);
    struct end gone = b;
    close_end(&b);
    open_plain(&a);
    unsigned queued = 0;
    for (unsigned i = 0; i < 1000; i++) {
        queued += send_text(&a, &gone, "hello") ? 1 : 0;
    }
    struct hr_gossip_counts counts = hr_gossip_counts(a.gossip);
    assert_in_range(queued, 1, HR_GOSSIP_QUEUE_MAX + 2);
    assert_int_equal(counts.sent, queued);
    assert_int_equal(counts.dropped, 1000 - queued);
    close_end(&a);
}

static void a_peer_that_comes_back_is_connected_again(void **state)
{
    (void)state;
    struct end a, b;
    char listen[64];
    open_plain(&a);
    open_plain(&b);
    assert_true(send_text(&a, &b, "one"));
    assert_true(await(&b, 1, ARRIVAL_S));
    memcpy(listen, b.address, sizeof(listen));
    close_end(&b);
    open_end(&b, (struct hr_gossip_config){.listen = listen});
    for (unsigned tries = 0; tries < 100 && !await(&b, 1, 1); tries++) {
        (void)send_text(&a, &b, "two"); /* the first may go into the connection that is gone */
    }
    assert_true(await(&b, 1, 0));
    close_end(&a);
    close_end(&b);
}

static void a_receiver_that_stands_still_stops_nobody_else(void **state)
{
    (void)state;
    static char packet[60000];
    struct end a, slow, quick;
    open_plain(&a);
    open_plain(&slow);
    open_plain(&quick);
    slow.is_held = true;
    for (unsigned i = 0; i < 2000; i++) {
        (void)hr_gossip_send(a.gossip, hr_span_of(slow.address), (struct hr_span){packet, sizeof(packet)});
    }
    assert_true(hr_gossip_counts(a.gossip).dropped > 0);
    assert_true(send_text(&a, &quick, "still here"));
    assert_true(await(&quick, 1, ARRIVAL_S));
    pthread_mutex_lock(&slow.lock);
    slow.is_held = false;
    pthread_cond_broadcast(&slow.changed);
    pthread_mutex_unlock(&slow.lock);
    close_end(&a);
    close_end(&quick);
    close_end(&slow);
}

static void only_tcp_and_tls_addresses_are_dialled(void **state)
{
    (void)state;
    static const char *const addresses[] = {
        "",         "tcp://",          "tcp://:7401",        "tcp://a:",       "tcp://a:x",        "tcp://a:123456",
        "ipc:///a", "inproc://gossip", "ws://127.0.0.1:80/", "127.0.0.1:7401", "tls+tcp://a:7401", "tcp://[]:1",
    };
    struct end a;
    open_plain(&a);
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        if (hr_gossip_send(a.gossip, hr_span_of(addresses[i]), HR_SPAN("x")) ||
            hr_gossip_counts(a.gossip).unreachable != i + 1) {
            fail_msg("%zu: %s", i, addresses[i]);
        }
    }
    close_end(&a);
}

static void more_addresses_than_places_take_turns(void **state)
{
    (void)state;
    struct end a, b;
    open_plain(&a);
    open_plain(&b);
    for (unsigned i = 0; i < HR_GOSSIP_PEERS_MAX + 10; i++) {
        char address[64];
        (void)snprintf(address, sizeof(address), "tcp://127.1.%u.%u:1", i / 250, 1 + i % 250);
        assert_true(hr_gossip_send(a.gossip, hr_span_of(address), HR_SPAN("x")));
    }
    assert_true(send_text(&a, &b, "after all"));
    assert_true(await(&b, 1, ARRIVAL_S));
    close_end(&a);
    close_end(&b);
}

static unsigned entries(const char *path)
{
    unsigned count = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

static void closing_leaves_no_thread_and_no_descriptor(void **state)
{
    (void)state;
    unsigned threads = entries("/proc/self/task"), descriptors = entries("/proc/self/fd");
    for (unsigned round = 0; round < 5; round++) {
        struct end a, b;
        open_plain(&a);
        open_plain(&b);
        assert_true(send_text(&a, &b, "x"));
        assert_true(await(&b, 1, ARRIVAL_S));
        close_end(&a);
        close_end(&b);
        assert_int_equal(entries("/proc/self/task"), threads);
        assert_int_equal(entries("/proc/self/fd"), descriptors);
    }
}

static void an_address_in_use_is_a_problem_with_a_reason(void **state)
{
    (void)state;
    struct hr_gossip_problem problem;
    struct end a, b;
    open_plain(&a);
    assert_false(try_open(&b, (struct hr_gossip_config){.listen = a.address}, &problem));
    assert_non_null(strstr(problem.what, a.address));
    assert_non_null(strstr(problem.what, "in use"));
    assert_false(try_open(&b, (struct hr_gossip_config){.listen = "ipc:///nowhere"}, &problem));
    assert_false(try_open(&b, (struct hr_gossip_config){.listen = "tls+tcp://127.0.0.1:0"}, &problem));
    close_end(&a);
}

static void names_resolve_to_all_their_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *address, *wanted; /* NULL: none */
    } rows[] = {
        {"tcp://127.0.0.1:7401", "tcp://127.0.0.1:7401"},
        {"tls+tcp://[::1]:7401", "tls+tcp://[::1]:7401"},
        {"tcp://no-such-name.invalid:7401", NULL},
        {"tcp://127.0.0.1:http", NULL},
        {"127.0.0.1:7401", NULL},
    };
    char found[8][HR_MEMBER_ADDRESS_BYTES_MAX + 1];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t count = hr_gossip_resolve(hr_span_of(rows[i].address), found, 8);
        if (count != (rows[i].wanted == NULL ? 0 : 1) || (count == 1 && strcmp(found[0], rows[i].wanted) != 0)) {
            fail_msg("row %zu: %u found", i, count);
        }
    }
    uint32_t count = hr_gossip_resolve(HR_SPAN("tcp://localhost:7401"), found, 8);
    assert_in_range(count, 1, 8);
    for (uint32_t i = 0; i < count; i++) {
        assert_non_null(strstr(found[i], ":7401"));
    }
    assert_int_equal(hr_gossip_resolve(HR_SPAN("tcp://localhost:7401"), found, 1), 1);
}

/* TLS, with certificates made here. */

struct identities {
    struct temp_dir temp;
    const char *dir;                    /* its path */
    char files[8][TEMP_PATH_BYTES + 8]; /* ca, ca.key, node, node.key, other ca, ..., other node, ... */
};

enum { CA, CA_KEY, NODE, NODE_KEY, OTHER_CA, OTHER_CA_KEY, OTHER_NODE, OTHER_NODE_KEY };

__attribute__((format(printf, 1, 2))) static bool run(const char *format, ...)
{
    char command[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    return system(command) == 0;
}

static bool make_identity(struct identities *ids, unsigned ca, unsigned node)
{
    return run("openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=ca%u -days 2 -out %s -keyout %s 2>/dev/null", ca,
               ids->files[ca], ids->files[ca + 1]) &&
           run("openssl req -newkey rsa:2048 -nodes -subj /CN=node -out %s/csr -keyout %s 2>/dev/null", ids->dir,
               ids->files[node + 1]) &&
           run("openssl x509 -req -in %s/csr -CA %s -CAkey %s -CAcreateserial -days 2 -out %s 2>/dev/null", ids->dir,
               ids->files[ca], ids->files[ca + 1], ids->files[node]);
}

static bool make_identities(struct identities *ids)
{
    temp_dir_make(&ids->temp);
    ids->dir = ids->temp.path;
    for (unsigned i = 0; i < 8; i++) {
        (void)snprintf(ids->files[i], sizeof(ids->files[i]), "%s/%u.pem", ids->dir, i);
    }
    return make_identity(ids, CA, NODE) && make_identity(ids, OTHER_CA, OTHER_NODE);
}

static void remove_identities(struct identities *ids)
{
    (void)run("rm -r %s", ids->dir);
}

static struct hr_gossip_config secure(const struct identities *ids, unsigned ca, unsigned node)
{
    return (struct hr_gossip_config){
        .listen = "tls+tcp://127.0.0.1:0",
        .ca = ids->files[ca],
        .certificate = ids->files[node],
        .key = ids->files[node + 1],
    };
}

static void over_tls_only_nodes_under_the_same_ca_meet(void **state)
{
    (void)state;
    struct identities ids;
    if (!run("openssl version >/dev/null 2>&1")) {
        skip();
    }
    assert_true(make_identities(&ids));
    struct end a, b, stranger, gullible, plain;
    struct hr_gossip_problem problem;
    open_end(&a, secure(&ids, CA, NODE));
    open_end(&b, secure(&ids, CA, NODE));
    open_end(&stranger, secure(&ids, OTHER_CA, OTHER_NODE));
    open_end(&gullible, secure(&ids, CA, OTHER_NODE)); /* trusts them, and is not trusted */
    open_plain(&plain);
    assert_true(send_text(&a, &b, "in private"));
    assert_true(await(&b, 1, ARRIVAL_S));
    assert_string_equal(b.last, "in private");
    (void)send_text(&stranger, &b, "stranger");
    (void)send_text(&gullible, &b, "gullible");
    (void)send_text(&a, &stranger, "to a stranger");
    assert_false(send_text(&a, &plain, "in clear")); /* never */
    char disguise[64];
    (void)snprintf(disguise, sizeof(disguise), "tcp://127.0.0.1:%u", hr_gossip_port(b.gossip));
    (void)hr_gossip_send(plain.gossip, hr_span_of(disguise), HR_SPAN("plain"));
    assert_false(await(&b, 2, 2)); /* none of the three comes */
    assert_false(await(&stranger, 1, 0));
    assert_true(send_text(&a, &b, "again"));
    assert_true(await(&b, 2, ARRIVAL_S));
    assert_string_equal(b.last, "again");
    struct end *const all[] = {&a, &b, &stranger, &gullible, &plain};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        hr_gossip_leave(
            all[i]->gossip); /* those in vain are being connected still, which nng's close may not outlive */
    }
    assert_false(
        try_open(&a, (struct hr_gossip_config){.listen = "tls+tcp://127.0.0.1:0", .ca = ids.files[CA]}, &problem));
    struct hr_gossip_config mixed = secure(&ids, CA, NODE);
    mixed.certificate = ids.files[NODE_KEY]; /* no certificate */
    assert_false(try_open(&a, mixed, &problem));
    remove_identities(&ids);
}

/* The last test: its threads end with the process. */
static void who_has_left_takes_nothing_more(void **state)
{
    (void)state;
    static struct end a, b;
    open_plain(&a);
    open_plain(&b);
    assert_true(send_text(&a, &b, "before"));
    assert_true(await(&b, 1, ARRIVAL_S));
    hr_gossip_leave(b.gossip);
    assert_true(send_text(&a, &b, "behind"));
    assert_false(await(&b, 2, 1));
    hr_gossip_leave(a.gossip);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_arrive_in_order_and_whole),
        cmocka_unit_test(a_packet_to_nobody_is_queued_then_dropped_and_never_waits),
        cmocka_unit_test(a_peer_that_comes_back_is_connected_again),
        cmocka_unit_test(a_receiver_that_stands_still_stops_nobody_else),
        cmocka_unit_test(only_tcp_and_tls_addresses_are_dialled),
        cmocka_unit_test(more_addresses_than_places_take_turns),
        cmocka_unit_test(closing_leaves_no_thread_and_no_descriptor),
        cmocka_unit_test(an_address_in_use_is_a_problem_with_a_reason),
        cmocka_unit_test(names_resolve_to_all_their_addresses),
        cmocka_unit_test(over_tls_only_nodes_under_the_same_ca_meet),
        cmocka_unit_test(who_has_left_takes_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
