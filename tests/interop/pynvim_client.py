#!/usr/bin/env python3
"""pynvim_client.py HOST PORT: pynvim's session, which greets with a notification that a node does not know."""
import sys

import scenario
from pynvim.msgpack_rpc import tcp_session


class CallFailed(Exception):
    pass


class Client:
    def __init__(self, host, port):
        self.session = tcp_session(host, port)
        self.session.error_wrapper = CallFailed

    def call(self, method, params):
        try:
            return None, self.session.request(method, params)
        except CallFailed as failure:
            return failure.args[0], None

    def call_at_once(self, method, all_params):
        """By the layer below, which does not wait for one answer before it sends the next request."""
        session = self.session._async_session
        answers = [None] * len(all_params)

        def expect(place):
            def on_answer(error, result):
                answers[place] = (error, result)
                if None not in answers:
                    session.stop()
            return on_answer

        for place, params in enumerate(all_params):
            session.request(method, [params], expect(place))
        session.run(None, None)
        return answers


if __name__ == "__main__":
    client = Client(sys.argv[1], int(sys.argv[2]))
    scenario.run(client, "pynvim")
    client.session.close()
