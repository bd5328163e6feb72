# Completion of headroom(1) for bash: commands, their options, and files where files belong.

# _headroom_options COMMAND: the options that it takes.
_headroom_options() {
    local common='--help --version' ask='--node --timeout --json'
    case $1 in
    check | refund) echo "--cost --id $ask $common" ;;
    peek) echo "--cost $ask $common" ;;
    release | renew | status | limits) echo "$ask $common" ;;
    explain) echo "--limits $ask $common" ;;
    local) echo "--regions --nodes --limits --data --wan-delay --json $common" ;;
    members) echo "--partitions $ask $common" ;;
    region) echo "--lost $ask $common" ;;
    top) echo "--once $ask $common" ;;
    bench)
        echo "--connections --pipeline --requests --seconds --rate --keys --skew --attribute --cost --detail" \
            "--spread --route $ask $common"
        ;;
    config | test) echo "--json $common" ;;
    replay) echo "--limits --summary --json --counters $common" ;;
    *) echo "$common" ;;
    esac
}

_headroom() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    local commands='bench check config explain limits local members peek refund region release renew replay'
    commands+=' status test top'
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$word")
        return
    fi
    case $previous in
    --limits | put)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    --data)
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        return
        ;;
    --detail)
        mapfile -t COMPREPLY < <(compgen -W 'on off' -- "$word")
        return
        ;;
    esac
    case $command:$word in
    *:-*) mapfile -t COMPREPLY < <(compgen -W "$(_headroom_options "$command")" -- "$word") ;;
    limits:*)
        [ "$COMP_CWORD" -ne 2 ] || mapfile -t COMPREPLY < <(compgen -W 'list get put delete' -- "$word")
        ;;
    local:*)
        [ "$COMP_CWORD" -ne 2 ] || mapfile -t COMPREPLY < <(compgen -W 'cut mute deaf heal' -- "$word")
        ;;
    region:*)
        [ "$COMP_CWORD" -ne 2 ] || mapfile -t COMPREPLY < <(compgen -W remove -- "$word")
        ;;
    members:*)
        [ "$COMP_CWORD" -ne 2 ] || mapfile -t COMPREPLY < <(compgen -W forget -- "$word")
        ;;
    config:*)
        if [ "$COMP_CWORD" -eq 2 ]; then
            COMPREPLY=(check)
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
        fi
        ;;
    replay:* | test:*) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    esac
}

complete -o filenames -F _headroom headroom
