/* This node as others know it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/self.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define NODE "node: {name: eu-1, region: eu, data: /d, host: rack-1, weight: 3}\n"
#define SECRET "cluster: {secret_file: s}\n"
#define TLS "cluster: {secret_file: s, tls: {ca: a, certificate: b, key: c}}\n"

static struct hr_node_config parse(const char *text)
{
    struct hr_problem problem = {0};
    struct hr_node_config config;
    if (!hr_node_config_parse(hr_span_of(text), "f", &config, &problem)) {
        fail_msg("%s\nrefused: %s (%s)", text, problem.what, problem.where);
    }
    return config;
}

static void addresses_are_those_that_are_advertised(void **state)
{
    (void)state;
    static const struct {
        const char *text, *rpc, *gossip;
    } rows[] = {
        {NODE, "127.0.0.1:7400", ""},
        {NODE "listen: {rpc: \"[::1]:0\"}\n", "[::1]:11", ""},
        {NODE SECRET "listen: {gossip: \"tcp://10.0.0.1:0\"}\n", "127.0.0.1:7400", "tcp://10.0.0.1:22"},
        {NODE TLS "listen: {gossip: \"tcp://[::1]:5\"}\n", "127.0.0.1:7400", "tls+tcp://[::1]:5"},
        {NODE SECRET "listen: {gossip: \"tcp://0.0.0.0:5\", rpc: \"0.0.0.0:6\"}\n"
                     "advertise: {gossip: \"tcp://eu-1.example:7\", rpc: \"eu-1.example:8\"}\n",
         "eu-1.example:8", "tcp://eu-1.example:7"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hr_node_config config = parse(rows[i].text);
        struct hr_member self;
        assert_true(hr_self_describe(&config, (struct hr_self_ports){.rpc = 11, .gossip = 22}, &self));
        if (strcmp(self.rpc, rows[i].rpc) != 0 || strcmp(self.gossip, rows[i].gossip) != 0) {
            fail_msg("row %zu: %s, %s", i, self.rpc, self.gossip);
        }
    }
}

static void all_else_is_as_in_the_node_file(void **state)
{
    (void)state;
    struct hr_node_config config = parse(NODE);
    struct hr_member self;
    assert_true(hr_self_describe(&config, (struct hr_self_ports){.rpc = 0}, &self));
    assert_string_equal(self.name, "eu-1");
    assert_string_equal(self.region, "eu");
    assert_string_equal(self.host, "rack-1");
    assert_int_equal(self.weight, 3);
    assert_int_equal(self.state, HR_MEMBER_ALIVE);
    assert_int_equal(self.id, hr_member_id(HR_SPAN("eu"), HR_SPAN("eu-1")));
}

/* "tcp://" and ":7401" around a host of this many bytes is as long as a member's address can be. */
static void an_address_that_no_member_can_have_is_refused(void **state)
{
    (void)state;
    for (int bytes = 243; bytes <= 244; bytes++) {
        struct hr_node_config config = parse(NODE SECRET "listen: {gossip: \"tcp://h:7401\"}\n");
        struct hr_member self;
        memset(config.advertise.gossip.host, 'h', (size_t)bytes);
        config.advertise.gossip.host[bytes] = '\0';
        bool fits = hr_self_describe(&config, (struct hr_self_ports){.rpc = 0}, &self);
        if (fits != (bytes + 11 <= HR_MEMBER_ADDRESS_BYTES_MAX)) {
            fail_msg("%d bytes", bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_those_that_are_advertised),
        cmocka_unit_test(all_else_is_as_in_the_node_file),
        cmocka_unit_test(an_address_that_no_member_can_have_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
