# bash splits words also at characters such as ':' and '=', and replaces only what is after them. This joins
# such words again, and lets bash quote spaces.
_dmv() {
    local -a joined=()
    local i at=-1 current=0 parted=false word trimmed rest=$COMP_LINE
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        word=${COMP_WORDS[i]}
        trimmed=${rest#"${rest%%[![:space:]]*}"}
        if [[ i -gt 0 && $trimmed == "$rest" && $trimmed == "$word"* ]]; then
            joined[at]+=$word
            [[ i -eq COMP_CWORD ]] && parted=true
        else
            joined[++at]=$word
        fi
        rest=${trimmed#"$word"}
        if [[ i -eq COMP_CWORD ]]; then
            current=$at
        fi
    done
    local text=${2//\\/} before=""
    if [[ $parted == true || ${joined[current]} == "${COMP_WORDS[COMP_CWORD]}" && -z $2 ]]; then
        text=${joined[current]//[\\\"\']/}
        before=${text%"${2//\\/}"}
    fi
    local -a COMP_WORDS=("${joined[@]}")
    local COMP_CWORD=$current
    _clap_complete_dmv "$1" "$text" "$3"
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
    if [[ "${COMPREPLY[*]}" == *[^a-zA-Z0-9/._@~:=+,%-]* ]]; then
        compopt -o filenames 2> /dev/null
    fi
}
complete -o nospace -o bashdefault -o nosort -F _dmv dmv 2> /dev/null ||
    complete -o nospace -o bashdefault -F _dmv dmv
