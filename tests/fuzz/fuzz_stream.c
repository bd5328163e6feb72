/* Feeds a stream letters of arbitrary bytes, and such as belong to it but hold anything. It must give messages that lie
 * within their letter, and go on sending. The input: any number of letters, each behind a byte and its length, two
 * bytes: an odd byte has the letter's head made valid. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "region/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define RING_BYTES (3 * HR_STREAM_MESSAGE_BYTES_MAX)

static void write_u64(uint8_t *at, uint64_t value)
{
    memcpy(at, &value, sizeof(value));
}

static void receive(struct hr_stream *stream, struct hr_span body, hr_ns now)
{
    struct hr_stream_letter letter;
    struct hr_span message;
    if (hr_stream_receive(stream, body, now, &letter) != HR_OK) {
        return;
    }
    while (hr_stream_next_message(&letter, &message)) {
        if (message.at < body.at || message.at + message.bytes > body.at + body.bytes) {
            abort();
        }
        if (message.bytes % 5 == 4) {
            break; /* not ready for it */
        }
        hr_stream_take(stream);
        if (hr_stream_room(stream) >= message.bytes) {
            (void)hr_stream_put(stream, message, (struct hr_span){"", 0});
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint8_t ring[RING_BYTES + 64], out[HR_STREAM_LETTER_BYTES_MAX];
    struct hr_bump bump = {.at = ring};
    struct hr_stream stream;
    hr_ns now = 0;
    hr_stream_init(&stream, 7, RING_BYTES, &bump);
    (void)hr_stream_open(&stream, 9);
    while (bytes >= 3) {
        size_t length = data[1] | (size_t)data[2] << 8;
        length = length > bytes - 3 ? bytes - 3 : length;
        uint8_t *body = malloc(length + 1);
        memcpy(body, data + 3, length);
        if (data[0] % 2 == 1 && length >= HR_STREAM_HEAD_BYTES) {
            write_u64(body, 9);
            write_u64(body + 8, 7);
            write_u64(body + 16, stream.awaited - (data[0] >> 1) % 3);
        }
        receive(&stream, (struct hr_span){(char *)body, length}, now);
        now += (hr_ns)data[0] * HR_NS_PER_MS;
        for (int i = 0; i < 4 && hr_stream_next_letter(&stream, now, out) > 0; i++) {
        }
        free(body);
        data += 3 + length;
        bytes -= 3 + length;
    }
    return 0;
}
