# Cuts the bad end off each read: bases whose quality is below `quality`. Reads that are shorter than `shortest` then are
# left out. A quality is a character, 33 and more behind the beginning of ASCII.
BEGIN { for (code = 33; code < 127; code++) score[sprintf("%c", code)] = code - 33 }
NR % 4 == 1 { name = $0 }
NR % 4 == 2 { bases = $0 }
NR % 4 == 0 {
    end = length($0)
    while (end > 0 && score[substr($0, end, 1)] < quality) end--
    if (end >= shortest) printf "%s\n%s\n+\n%s\n", name, substr(bases, 1, end), substr($0, 1, end)
}
