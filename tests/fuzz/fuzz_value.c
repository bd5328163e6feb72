/* What a node answers, as the command prints it: any bytes that are a whole value must come out as text, and any others
 * as an error, in every form. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "node/command/top.h"
#include "node/value_text.h"
#include "rpc/unpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

/* What is no whole value must be an error in every form; what is one may still be no map. */
static void print_all(FILE *out, struct hr_span bytes)
{
    static enum hr_err (*const forms[])(FILE * out, struct hr_span value) = {hr_value_print_json, hr_value_print_flow,
                                                                             hr_value_print_item, hr_value_print};
    struct hr_unpacker in = {bytes};
    struct hr_span value;
    enum hr_err whole = hr_unpack_skip(&in, &value);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        enum hr_err err = forms[i](out, bytes);
        require(whole == HR_OK || err == whole);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct hr_top_sample sample;
    const struct hr_span bytes = {(const char *)data, size};
    char *text = NULL;
    size_t text_bytes = 0;
    FILE *out = open_memstream(&text, &text_bytes);
    require(out != NULL);
    print_all(out, bytes);
    if (hr_top_read_status(bytes, &sample) == HR_OK && hr_top_read_hot_keys(bytes, &sample) == HR_OK) {
        hr_top_print(out, NULL, &sample, UINT32_MAX);
    }
    require(fclose(out) == 0);
    for (size_t i = 0; i < text_bytes; i++) {
        unsigned char byte = (unsigned char)text[i];
        require(byte == '\n' || (byte >= ' ' && byte != 0x7f)); /* no control reaches a terminal */
    }
    free(text);
    return 0;
}
