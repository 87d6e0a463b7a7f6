# All words of `k` letters that the reads have, one per line, as often as they are there.
NR % 4 == 2 {
    for (at = 1; at <= length($0) - k + 1; at++) {
        word = substr($0, at, k)
        if (word !~ /N/) print word
    }
}
