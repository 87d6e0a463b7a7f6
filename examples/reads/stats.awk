# What there is to say of the reads of a sample: a line for each, with its name in front.
NR % 4 == 1 { split(substr($1, 2), part, "."); sample = part[1] }
NR % 4 == 2 {
    reads++
    bases += length($0)
    if (length($0) > longest) longest = length($0)
    strong += gsub(/[GC]/, "")
}
END {
    print "sample\t" sample
    print "reads\t" reads
    print "bases\t" bases
    printf "mean length\t%.1f\n", bases / reads
    print "longest\t" longest
    printf "GC %%\t%.2f\n", 100 * strong / bases
}
