#include "node/http_session.h"

#include <stdio.h>

#define PLAIN_TEXT "text/plain; charset=utf-8"

void hr_http_session_init(struct hr_http_session *session)
{
    hr_http_reader_init(&session->reader);
    session->is_over = false;
}

/* The status line's words, and the body of an answer that is no page. */
static struct hr_span words_of(unsigned status)
{
    switch (status) {
    case 200:
        return HR_SPAN("OK\n");
    case 400:
        return HR_SPAN("Bad Request\n");
    case 404:
        return HR_SPAN("Not Found\n");
    case 405:
        return HR_SPAN("Method Not Allowed\n");
    case 413:
        return HR_SPAN("Content Too Large\n");
    case 414:
        return HR_SPAN("URI Too Long\n");
    case 431:
        return HR_SPAN("Request Header Fields Too Large\n");
    case 503:
        return HR_SPAN("Service Unavailable\n");
    case 505:
        return HR_SPAN("HTTP Version Not Supported\n");
    default:
        return HR_SPAN("Internal Server Error\n");
    }
}

static struct hr_http_page plain_page(unsigned status)
{
    return (struct hr_http_page){status, PLAIN_TEXT, words_of(status)};
}

static struct hr_http_page page_for(const struct hr_http_reader *reader, const struct hr_http_pages *pages)
{
    struct hr_http_page page;
    if (reader->method == HR_HTTP_OTHER) {
        return plain_page(405);
    }
    return pages->find(pages->context, hr_http_reader_path(reader), &page) ? page : plain_page(404);
}

/* HTTP/1.0 wants to be told that a connection stays open, HTTP/1.1 that it does not. */
static const char *connection_field(const struct hr_http_reader *reader, bool is_last)
{
    if (is_last) {
        return "Connection: close\r\n";
    }
    return reader->is_1_0 ? "Connection: keep-alive\r\n" : "";
}

static struct hr_span write_head(struct hr_http_session *session, const struct hr_http_page *page, bool is_last)
{
    struct hr_span words = words_of(page->status);
    int bytes = snprintf(
        session->head, sizeof(session->head),
        "HTTP/1.1 %u %.*s\r\nContent-Type: %.100s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n%s%s\r\n",
        page->status, (int)words.bytes - 1, words.at, page->content_type, page->body.bytes,
        page->status == 405 ? "Allow: GET, HEAD\r\n" : "", connection_field(&session->reader, is_last));
    return (struct hr_span){session->head, (size_t)bytes};
}

size_t hr_http_session_next(struct hr_http_session *session, const struct hr_http_pages *pages, struct hr_span arrived,
                            struct hr_http_answer *ret_answer)
{
    *ret_answer = (struct hr_http_answer){.is_last = session->is_over};
    if (session->is_over) {
        return arrived.bytes;
    }
    enum hr_http_event event;
    struct hr_http_reader *reader = &session->reader;
    size_t consumed = hr_http_reader_next(reader, arrived, &event);
    if (event == HR_HTTP_MORE) {
        return consumed;
    }
    bool is_fault = event == HR_HTTP_FAULT;
    struct hr_http_page page = is_fault ? plain_page(reader->status) : page_for(reader, pages);
    session->is_over = is_fault || !reader->keeps_alive;
    ret_answer->is_last = session->is_over;
    ret_answer->head = write_head(session, &page, session->is_over);
    ret_answer->body = !is_fault && reader->method == HR_HTTP_HEAD ? (struct hr_span){NULL, 0} : page.body;
    return consumed;
}
