# The number of clusters that Mclust() chooses for each file of rows, then all BIC.
#   Rscript mclust_choose.R JOBS MOST
# JOBS has a line a file: its path (.npy) and the name of a model.

read_npy <- function(path) {
  file <- file(path, "rb")
  on.exit(close(file))
  readBin(file, "raw", 8)
  length <- readBin(file, "integer", size = 2, signed = FALSE, endian = "little")
  header <- rawToChar(readBin(file, "raw", length))
  shape <- regmatches(header, regexec("\\(([0-9]+), ([0-9]+)\\)", header))[[1]]
  shape <- as.integer(shape[2:3])
  matrix(readBin(file, "double", prod(shape)), shape[1], shape[2], byrow = TRUE)
}

suppressPackageStartupMessages(library(mclust))
arguments <- commandArgs(trailingOnly = TRUE)
for (line in readLines(arguments[1])) {
  job <- strsplit(line, " ")[[1]]
  model <- if (job[2] == "all") NULL else job[2]
  fit <- Mclust(read_npy(job[1]), G = seq_len(as.integer(arguments[2])),
    modelNames = model, verbose = FALSE)
  cat(fit$G, sprintf("%.1f", if (is.null(model)) fit$bic else fit$BIC[, 1]), "\n")
}
