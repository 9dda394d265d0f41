// Package rng is torch's CPU random generator: the Mersenne Twister of
// at::CPUGeneratorImpl, the 5056-byte state that torch.get_rng_state returns,
// and the ways in which torch turns its words into numbers.
//
// It promises that the same seed or state gives the same bits as torch 2.14 on
// x86-64 with AVX2, whatever machine this runs on: permutations, uniforms,
// Bernoulli trials, and normals of 16 elements and more. Normals of fewer than
// 16 elements go through the C library's double-precision functions in torch;
// here each of those is correctly rounded or glibc's own formula, see
// [Generator.NormalFloat32].
//
// It does not know Python's and NumPy's generators, CUDA's, or the generator of
// Intel MKL, to which torch hands the Bernoulli trials of dropout.
package rng
