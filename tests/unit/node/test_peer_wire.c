/* Peer wire: the notification's bytes, and that no bytes make a reader go wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/peer_wire.h"
#include "rpc/session.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void a_packet_is_a_notification_of_these_bytes(void **state)
{
    (void)state;
    static const char golden[] = "\x93\x02\xa4peer\x91\x81\xa1m\xc4\x03\x00\xff\x7f";
    char bytes[64];
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    hr_pack_peer(&packer, (struct hr_span){"\x00\xff\x7f", 3});
    assert_int_equal(packer.wanted, sizeof(golden) - 1);
    assert_memory_equal(bytes, golden, sizeof(golden) - 1);
}

/* Through the session, as it comes in; and each prefix of it is not there yet, never something else. */
static void a_session_hands_over_what_was_packed_and_nothing_before_it_is_whole(void **state)
{
    (void)state;
    char bytes[512], packet[300];
    const struct hr_session_limits limits = {.frame_bytes_max = HR_FRAME_BYTES_MAX, .in_flight_max = 1};
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    memset(packet, 0x5a, sizeof(packet));
    hr_pack_peer(&packer, (struct hr_span){packet, sizeof(packet)});
    for (size_t count = 0; count <= packer.wanted; count++) {
        struct hr_session session;
        struct hr_session_event event;
        struct hr_span got;
        char *copy = malloc(count + 1); /* exact, so that a sanitizer sees a read behind it */
        assert_non_null(copy);
        memcpy(copy + 1, bytes, count);
        hr_session_init(&session, &limits);
        hr_session_next(&session, (struct hr_span){copy + 1, count}, &event);
        bool is_whole = count == packer.wanted;
        assert_int_equal(event.kind, is_whole ? HR_SESSION_NOTIFICATION : HR_SESSION_MORE);
        if (is_whole) {
            assert_int_equal(event.method, HR_METHOD_PEER);
            assert_int_equal(hr_unpack_peer(event.params, &got), HR_OK);
            assert_int_equal(got.bytes, sizeof(packet));
            assert_memory_equal(got.at, packet, sizeof(packet));
        }
        free(copy);
    }
}

static void what_is_no_packet_is_refused(void **state)
{
    (void)state;
    static const struct {
        struct hr_span params;
        enum hr_err err;
    } rows[] = {
        {{"\x80", 1}, HR_E_NOT_FOUND},
        {{"\x81\xa1n\xc4\x01x", 6}, HR_E_NOT_FOUND},
        {{"\x82\xa1n\x01\xa1m\xc4\x01x", 9}, HR_OK},
        {{"\x81\xa1m\xa1x", 5}, HR_OK}, /* text, as some write bytes */
        {{"\x81\xa1m\x01", 4}, HR_E_INVALID},
        {{"\x81\xa1m\x90", 4}, HR_E_INVALID},
        {{"\x81\x01\x01", 3}, HR_E_INVALID},
        {{"\x90", 1}, HR_E_INVALID},
        {{"\x81\xa1m\xc4\x05x", 6}, HR_E_TRUNCATED},
        {{"\x81\xa1m", 3}, HR_E_TRUNCATED},
        {{"\x81", 1}, HR_E_TRUNCATED},
        {{"", 0}, HR_E_TRUNCATED},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hr_span packet;
        enum hr_err err = hr_unpack_peer(rows[i].params, &packet);
        if (err != rows[i].err) {
            fail_msg("row %zu: %s", i, hr_err_text(err));
        }
    }
}

static void too_long_a_packet_is_refused(void **state)
{
    (void)state;
    size_t room = HR_PEER_PACKET_BYTES_MAX + 64;
    char *bytes = malloc(room), *packet = calloc(1, HR_PEER_PACKET_BYTES_MAX + 1);
    assert_non_null(bytes);
    assert_non_null(packet);
    for (size_t more = 0; more <= 1; more++) {
        struct hr_packer packer = {.at = bytes, .room = room};
        struct hr_span got;
        hr_pack_map(&packer, 1);
        hr_pack_text(&packer, HR_SPAN("m"));
        hr_pack_bin(&packer, (struct hr_span){packet, HR_PEER_PACKET_BYTES_MAX + more});
        assert_int_equal(hr_unpack_peer(hr_packer_bytes(&packer), &got), more == 0 ? HR_OK : HR_E_RANGE);
    }
    free(packet);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packet_is_a_notification_of_these_bytes),
        cmocka_unit_test(a_session_hands_over_what_was_packed_and_nothing_before_it_is_whole),
        cmocka_unit_test(what_is_no_packet_is_refused),
        cmocka_unit_test(too_long_a_packet_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
