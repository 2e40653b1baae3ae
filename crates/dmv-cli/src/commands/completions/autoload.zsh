# The first completion loads this file as a function: it has to answer as well.
if [[ "$funcstack[1]" == "_dmv" ]]; then
    _clap_dynamic_completer_dmv "$@"
fi
