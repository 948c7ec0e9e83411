/* MKL keeps its AVX-512 code for Intel's processors and gives others AVX2: half the speed of FP32
   products on a processor that has AVX-512. Preloaded, this answer opens it on all, so that
   PyTorch is measured at its best. Without AVX-512 in the processor it changes nothing. */
int mkl_serv_intel_cpu_true(void) { return 1; }
