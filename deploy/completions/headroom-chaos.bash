# Completion of headroom-chaos(1) for bash: commands, their options, scenarios, and files where files belong.

# _headroom_chaos_options COMMAND: the options that it takes.
_headroom_chaos_options() {
    local common='--help --version'
    case $1 in
    list | report) echo "--json $common" ;;
    run) echo "--seconds --data --report --json --print $common" ;;
    sim)
        echo "--seed --seeds --hours --lasts --limits --caps --schedule --faults --report --json --no-shrink" \
            "--regions --nodes --rps --keys --flush $common"
        ;;
    *) echo "$common" ;;
    esac
}

_headroom_chaos() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W 'links list report run sim --help --version' -- "$word")
        return
    fi
    case $previous in
    --limits | --schedule | --report)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    --data)
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        return
        ;;
    esac
    case $command:$word in
    *:-*) mapfile -t COMPREPLY < <(compgen -W "$(_headroom_chaos_options "$command")" -- "$word") ;;
    run:*)
        mapfile -t COMPREPLY < <(
            compgen -W 'partition one-way clock-skew clock-jump kill-owner standstill rolling-restart lossy
                clock-drift disk-full' -- "$word"
            compgen -f -- "$word"
        )
        ;;
    links:* | report:*) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    esac
}

complete -o filenames -F _headroom_chaos headroom-chaos
