/* HTTP session: one connection's half of a small HTTP/1.1 server, without the connection: bytes in, answers out. It
 * serves pages by GET and HEAD, keeps connections open, and takes pipelined requests one after the other.
 *
 *   200 or the page's own status; 400 no HTTP; 404 no such page; 405 another method; 413 a body of more than
 *   HR_HTTP_BODY_BYTES_MAX; 414, 431 a target or a head of more than HR_HTTP_HEAD_BYTES_MAX; 505 another version
 *
 * Answers carry no Date: there is no clock here.
 *
 * Thread: any one at a time. Pure. Memory: the struct alone; pages are borrowed. */
#ifndef HR_NODE_HTTP_SESSION_H
#define HR_NODE_HTTP_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"
#include "node/http_llhttp.h"

#define HR_HTTP_ANSWER_HEAD_BYTES_MAX 512

struct hr_http_page {
    unsigned status;          /* 200, 500 or 503 */
    const char *content_type; /* up to 100 bytes */
    struct hr_span body;
};

struct hr_http_pages {
    /* Fills in the page at path; its body lives until the next call. False: there is no such page. */
    bool (*find)(void *context, struct hr_span path, struct hr_http_page *ret_page);
    void *context;
};

/* What to send: the head, then the body. Borrowed until the session's next call. */
struct hr_http_answer {
    struct hr_span head; /* empty: no answer yet, more bytes are needed */
    struct hr_span body;
    bool is_last; /* when it is sent, close */
};

struct hr_http_session {
    struct hr_http_reader reader;
    bool is_over; /* the last answer was given */
    char head[HR_HTTP_ANSWER_HEAD_BYTES_MAX];
};

void hr_http_session_init(struct hr_http_session *session);

/* Reads up to the next request's end, and answers it. How many bytes were taken: all of them where there is no answer.
 * After the last answer every byte is dropped. */
size_t hr_http_session_next(struct hr_http_session *session, const struct hr_http_pages *pages, struct hr_span arrived,
                            struct hr_http_answer *ret_answer);

#endif
