/* Feeds arbitrary bytes to a session as one end of a connection sees them: at once, and again in pieces of sizes that
 * the first bytes of the input choose; and each message once more with its first byte alone, which has it scanned
 * where it might be read in one go. All must tell the same events. Then each event's body goes to every decoder
 * there is, and what is accepted must be within the contract's bounds. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "rpc/pairs.h"
#include "rpc/params.h"
#include "rpc/session.h"
#include "rpc/told.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define EVENTS_MAX 4096
#define SEED_BYTES 2

static const struct hr_session_limits limits = {.frame_bytes_max = 1 << 16, .in_flight_max = 4};

/* What was seen of a stream: a hash of each event. */
struct trace {
    size_t count;
    uint64_t hashes[EVENTS_MAX];
};

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_request(const struct hr_params *params)
{
    require(params->attribute_count >= 1 && params->attribute_count <= HR_ATTRIBUTES_MAX);
    require(params->cost <= HR_COST_MAX && params->id.bytes <= HR_ID_BYTES_MAX);
    for (uint32_t i = 0; i < params->attribute_count; i++) {
        require(hr_attribute_name_is_valid(params->attributes[i].name));
        require(hr_attribute_value_is_valid(params->attributes[i].value));
        for (uint32_t j = 0; j < i; j++) {
            require(!hr_span_equal(params->attributes[i].name, params->attributes[j].name));
        }
    }
}

static void check_fault(const struct hr_fault *fault)
{
    require(fault->bytes > 0 && fault->bytes <= HR_FAULT_BYTES_MAX);
    for (uint32_t i = 0; i < fault->bytes; i++) {
        require(fault->text[i] >= ' ' && fault->text[i] <= '~');
    }
}

/* What was decoded says the same when it is encoded and decoded again. */
static void check_again(enum hr_method method, const struct hr_params *params)
{
    static char room[1 << 17], again[1 << 17];
    struct hr_packer first = {.at = room, .room = sizeof(room)}, second = {.at = again, .room = sizeof(again)};
    struct hr_params copy;
    struct hr_fault fault;
    hr_params_encode(params, &first);
    require(hr_packer_fits(&first));
    require(hr_params_decode(method, hr_packer_bytes(&first), &copy, &fault));
    require(copy.present == params->present && copy.attribute_count == params->attribute_count);
    hr_params_encode(&copy, &second);
    require(hr_span_equal(hr_packer_bytes(&first), hr_packer_bytes(&second)));
}

static void check_params(enum hr_method method, struct hr_span map)
{
    struct hr_params params, one;
    struct hr_fault fault;
    if (!hr_params_decode(method, map, &params, &fault)) {
        check_fault(&fault);
        return;
    }
    if (method == HR_METHOD_CHECK || method == HR_METHOD_REFUND) {
        check_request(&params);
    }
    require(params.requests.count <= HR_REQUESTS_MAX);
    require(params.name.bytes == 0 || hr_limit_name_is_valid(params.name));
    check_again(method, &params);
    uint32_t count = params.requests.count;
    while (hr_requests_next(&params.requests, &one)) {
        check_request(&one);
        count--;
    }
    require(count == 0 && params.requests.values.bytes == 0);
}

static void check_value(struct hr_span value)
{
    static struct hr_told_decision told;
    struct hr_unpacker in = {value};
    struct hr_pairs pairs;
    struct hr_pair pair;
    struct hr_fault fault;
    int64_t number;
    if (hr_unpack_decision(&in, &told) == HR_OK) {
        require(told.row_count <= HR_TOUCHED_MAX && in.left.bytes <= value.bytes);
    }
    bool is_fault;
    in.left = value;
    if (hr_unpack_outcome(&in, &told, &fault, &is_fault) == HR_OK) {
        require(!is_fault || fault.bytes <= HR_FAULT_BYTES_MAX);
    }
    if (hr_unpack_error(value, &fault)) {
        require(fault.bytes <= HR_FAULT_BYTES_MAX);
    }
    require(hr_unpack_number(value, HR_SPAN("ttl_ms"), &number) != HR_E_FULL);
    enum hr_err err = hr_pairs_begin(&pairs, value);
    while (err == HR_OK) {
        err = hr_pairs_next(&pairs, &pair);
    }
}

static void decode_all(struct hr_span bytes)
{
    for (unsigned method = 0; method <= HR_METHOD_UNKNOWN; method++) {
        check_params((enum hr_method)method, bytes);
    }
    check_value(bytes);
}

static uint64_t hash_of(const struct hr_session_event *event)
{
    uint64_t hash = hr_plain_hash(&event->kind, sizeof(event->kind), event->consumed);
    hash = event->has_msgid ? hr_plain_hash(&event->msgid, sizeof(event->msgid), hash) : hash;
    if (event->kind == HR_SESSION_REQUEST || event->kind == HR_SESSION_NOTIFICATION) {
        hash = hr_plain_hash(event->params.at, event->params.bytes, hash + event->method);
    }
    if (event->kind == HR_SESSION_RESPONSE) {
        hash = hr_plain_hash(event->error.at, event->error.bytes, hash);
        hash = hr_plain_hash(event->result.at, event->result.bytes, hash);
    }
    if (event->kind == HR_SESSION_REFUSED || (event->kind == HR_SESSION_BROKEN && event->has_msgid)) {
        check_fault(&event->fault);
        hash = hr_plain_hash(event->fault.text, event->fault.bytes, hash + event->fault.code);
    }
    return hash;
}

static void decode_body(const struct hr_session_event *event)
{
    if (event->kind == HR_SESSION_REQUEST || event->kind == HR_SESSION_NOTIFICATION) {
        decode_all(event->params);
    }
    if (event->kind == HR_SESSION_RESPONSE) {
        decode_all(event->error);
        decode_all(event->result);
    }
}

/* Whatever is read in one go is what scanning finds: a message whose first byte came alone is scanned. */
static void check_scanned(struct hr_session scanned, struct hr_span arrived, uint64_t hash)
{
    struct hr_session_event event;
    if (scanned.frame.at > 0 || arrived.bytes < 2) {
        return;
    }
    hr_session_next(&scanned, (struct hr_span){arrived.at, 1}, &event);
    if (event.kind == HR_SESSION_MORE) {
        hr_session_next(&scanned, arrived, &event);
        require(hash_of(&event) == hash);
    }
}

/* Takes all events out of what has arrived. Returns how many bytes they used up. False in *ret_more: it is over. */
static size_t take_events(struct hr_session *session, struct hr_span arrived, struct trace *trace, bool *ret_more)
{
    size_t used = 0;
    struct hr_session_event event;
    *ret_more = true;
    while (trace->count < EVENTS_MAX) {
        struct hr_span rest = {arrived.at + used, arrived.bytes - used};
        struct hr_session before = *session;
        hr_session_next(session, rest, &event);
        check_scanned(before, rest, hash_of(&event));
        require(event.consumed <= rest.bytes);
        if (event.kind == HR_SESSION_MORE) {
            return used;
        }
        require((event.consumed > 0) == (event.kind != HR_SESSION_BROKEN && event.kind != HR_SESSION_PAUSED));
        trace->hashes[trace->count++] = hash_of(&event);
        if (event.kind == HR_SESSION_BROKEN) {
            break;
        }
        decode_body(&event);
        used += event.consumed;
        if (event.kind == HR_SESSION_PAUSED) {
            hr_session_answered(session);
        }
    }
    *ret_more = false;
    return used;
}

/* The stream in pieces of 1 to piece_max bytes, or with 0 at once. What is there at a time lies in a block of exactly
 * its size. */
static void run(struct hr_span stream, uint64_t seed, size_t piece_max, struct trace *trace)
{
    struct hr_rng rng = {seed};
    struct hr_session session;
    size_t used = 0, arrived = 0;
    bool more = true;
    trace->count = 0;
    hr_session_init(&session, &limits);
    while (more && arrived < stream.bytes) {
        size_t piece = piece_max > 0 ? 1 + (size_t)hr_rng_below(&rng, piece_max) : stream.bytes;
        arrived += piece < stream.bytes - arrived ? piece : stream.bytes - arrived;
        char *block = malloc(arrived - used);
        require(block != NULL);
        memcpy(block, stream.at + used, arrived - used);
        used += take_events(&session, (struct hr_span){block, arrived - used}, trace, &more);
        free(block);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct trace whole, pieces;
    if (bytes <= SEED_BYTES || bytes > 1 << 14) {
        return 0;
    }
    struct hr_span stream = {(const char *)data + SEED_BYTES, bytes - SEED_BYTES};
    run(stream, 0, 0, &whole);
    run(stream, data[0], 1 + (size_t)data[1], &pieces);
    require(whole.count == pieces.count);
    require(memcmp(whole.hashes, pieces.hashes, whole.count * sizeof(whole.hashes[0])) == 0);
    decode_all(stream);
    return 0;
}
