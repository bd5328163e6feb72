/* Feeds arbitrary bytes to an HTTP session, whole and in pieces whose lengths the bytes themselves give. Both must be
 * answered alike, in whole answers, and nothing may follow the last. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "node/http_session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static bool find_page(void *context, struct hr_span path, struct hr_http_page *ret_page)
{
    (void)context;
    require(path.bytes <= HR_HTTP_TARGET_BYTES_MAX);
    *ret_page = (struct hr_http_page){200, "text/plain", path};
    return path.bytes > 1;
}

static const struct hr_http_pages pages = {.find = find_page};

struct outcome {
    uint64_t digest; /* of all answers */
    uint32_t count;
    bool is_over;
};

static void take(struct outcome *outcome, const struct hr_http_answer *answer)
{
    require(!outcome->is_over);
    require(answer->head.bytes > 20 && memcmp(answer->head.at, "HTTP/1.1 ", 9) == 0);
    require(memcmp(answer->head.at + answer->head.bytes - 4, "\r\n\r\n", 4) == 0);
    outcome->digest = hr_plain_hash(answer->head.at, answer->head.bytes, outcome->digest);
    outcome->digest = hr_plain_hash(answer->body.at, answer->body.bytes, outcome->digest);
    outcome->count++;
    outcome->is_over = answer->is_last;
}

static void feed(struct hr_http_session *session, struct hr_span piece, struct outcome *outcome)
{
    while (piece.bytes > 0) {
        struct hr_http_answer answer;
        size_t consumed = hr_http_session_next(session, &pages, piece, &answer);
        require(consumed <= piece.bytes && (answer.head.bytes > 0 || consumed == piece.bytes));
        piece = (struct hr_span){piece.at + consumed, piece.bytes - consumed};
        if (answer.head.bytes > 0) {
            take(outcome, &answer);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct hr_http_session session;
    struct outcome whole = {0}, pieces = {0};
    const char *at = (const char *)data;
    hr_http_session_init(&session);
    feed(&session, (struct hr_span){at, bytes}, &whole);
    hr_http_session_init(&session);
    for (size_t begin = 0; begin < bytes;) {
        size_t length = 1 + data[begin] % 13;
        length = length < bytes - begin ? length : bytes - begin;
        feed(&session, (struct hr_span){at + begin, length}, &pieces);
        begin += length;
    }
    require(whole.digest == pieces.digest && whole.count == pieces.count && whole.is_over == pieces.is_over);
    return 0;
}
