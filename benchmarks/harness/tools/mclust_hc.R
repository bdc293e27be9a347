# hc() of mclust for full Gaussians ("VVV"): prints the events that worker.py describes.
#   Rscript mclust_hc.R FILE.npy REPEATS WARM LIMIT

emit <- function(event, fields)
  cat(sprintf('{"event": "%s", %s}\n', event, fields))

memory_mib <- function(name) {
  line <- grep(name, readLines("/proc/self/status"), value = TRUE)
  as.numeric(gsub("[^0-9]", "", line)) / 1024
}

# Float64 rows as numpy.save writes them: magic, version, length of a header, data.
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

if (!requireNamespace("mclust", quietly = TRUE)) {
  emit("absent", '"reason": "R has no package mclust"')
  quit(status = 0)
}
suppressPackageStartupMessages(library(mclust))
arguments <- commandArgs(trailingOnly = TRUE)
x <- read_npy(arguments[1])
limits <- as.numeric(arguments[2:4])  # repeats, seconds of them, limit for any

emit("ready", sprintf('"versions": {"mclust": "%s", "R": "%s"}, "rss_mib": %.1f',
  packageVersion("mclust"), getRversion(), memory_mib("VmRSS")))
run <- function() {
  seconds <- system.time(hc(x, modelName = "VVV", use = "VARS"))[["elapsed"]]
  emit("run", sprintf('"m": %d, "seconds": %.4f, "peak_mib": %.1f', nrow(x), seconds,
    memory_mib("VmHWM")))
  seconds
}
last <- run()
left <- limits[2]
if (last <= limits[3]) for (i in seq_len(limits[1])) {
  last <- run()
  left <- left - last
  if (left < last) break
}
