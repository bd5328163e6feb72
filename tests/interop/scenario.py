"""What every client here does, for those in Python; expected.txt holds what each is to print."""


def wait(retry_after_ms):
    return {0: "now", -1: "never"}.get(retry_after_ms, "later")


def show(title, decision):
    limit = decision["limits"][0]
    print(f"{title}: {str(decision['allowed']).lower()} {decision['action']} {decision['decided_by'] or '-'}",
          limit["name"], limit["limit"], limit["remaining"], wait(decision["retry_after_ms"]))


def run(client, name):
    """client.call(method, params) gives (error, result); client.call_at_once(method, [params...]) a list of these."""

    def ask(method, **params):
        error, result = client.call(method, params)
        assert error is None, error
        return result

    def fail(method, **params):
        error, result = client.call(method, params)
        assert result is None, result
        return error.split(":")[0]

    first, second, third = ({"client": f"{name}-{i}"} for i in range(3))
    for _ in range(4):
        show("check", ask("check", attributes=first))
    show("check too dear", ask("check", attributes=second, cost=4))
    for _ in range(2):
        show("same id", ask("check", attributes=second, id=f"{name}-once"))
    for _ in range(2):
        show("peek", ask("check", attributes=second, peek=True))
    for decision in ask("check_many", requests=[{"attributes": second}] * 3):
        show("check many", decision)
    for _ in range(3):
        show("throttle", ask("throttle", key=name, rate="2/d"))

    pool = {"pool": name}
    held = ask("check", attributes=pool)
    show("lease", held)
    show("lease taken", ask("check", attributes=pool))
    for title in "release", "release again":
        print(f"{title}: {str(ask('release', lease=held['limits'][0]['lease'])['released']).lower()}")
    show("lease", ask("check", attributes=pool))

    print(f"unknown method: {fail('no_such_method')}")
    print(f"no attributes: {fail('check', cost=1)}")
    answers = client.call_at_once("check", [{"attributes": third}] * 20)
    print(f"at once: {sum(result['allowed'] for _, result in answers)} of {len(answers)}")
