# Functions for the places in which the lines of the documents run. ROOT, HOME and PATH are set.

# A repository 'film' in the current directory, with some history, and enters it.
film() {
    dmv init -q film && cd film || exit 1
    mkdir -p shots/scene4 titles audio textures code media/scene4/raw media/proxies slices raw/2024/scene4
    printf 'a film' > shots/scene4/a.mov
    printf 'exr' > shots/s4.exr
    head -c 5000 /dev/zero > shots/a.mov
    printf 'png' > titles/main.png
    printf 'notes\n' > notes.txt
    printf 'wav' > audio/take1.wav
    printf 'exr' > textures/wood.exr
    printf 'exr' > media/scene4/x.exr
    printf 'raw' > media/scene4/raw/y
    printf 'raw' > raw/2024/scene4/z
    printf 'int main;\n' > code/main.c
    printf 'shots/scene4\ntextures\n' > slices/lighting
    dmv commit -q -m 'first shots'
    for n in 2 3 4; do
        printf 'version %s' $n > shots/scene4/a.mov
        dmv commit -q -m "version $n"
    done
    dmv tag -q v1.0
    dmv tag -q v3
}

# The same with a branch 'regrade' that has a commit of its own, without a conflict.
film_with_regrade() {
    film
    dmv checkout -q -b regrade
    printf 'warmer' > shots/scene4/b.mov
    dmv commit -q -m 'the grade'
    dmv checkout -q main
}

# A bare copy of the current repository where the documents expect the NAS.
nas() {
    mkdir -p "$ROOT/srv" && dmv clone -q --bare . "$ROOT/srv/film.dmv"
}

# A conflict in shots/s4.exr, audio/take1.wav and code/main.c: merging 'regrade' leaves it.
clash() {
    film
    dmv checkout -q -b regrade
    printf '\0theirs' > shots/s4.exr
    printf '\0theirs' > audio/take1.wav
    printf 'int theirs;\n' > code/main.c
    dmv commit -q -m theirs
    dmv checkout -q main
    printf '\0ours' > shots/s4.exr
    printf '\0ours' > audio/take1.wav
    printf 'int ours;\n' > code/main.c
    dmv commit -q -m ours
}

# The merge of clash(), which ends with 4.
clashed() {
    clash
    dmv merge -q regrade
    test $? = 4
}

# The id of the newest operation.
last_operation() {
    dmv op log -n 1 --json | sed 's/.*"id":"\([0-9a-f]*\)".*/\1/'
}
