# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms: NumPy's values, and derivatives by their own definition."""
import anfora
import anfora.numpy as anp
import numpy as np

RNG = np.random.default_rng(0)


def complex_of(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def near(name, *args, **kw):
    ours, theirs = np.asarray(getattr(anp.fft, name)(*args, **kw)), np.asarray(getattr(np.fft, name)(*args, **kw))
    assert ours.shape == theirs.shape, (name, ours.shape, theirs.shape)
    wide = theirs.dtype in (np.complex128, np.float64)
    scale = max(1.0, abs(theirs).max(initial=0))
    assert abs(ours - theirs).max(initial=0) <= scale * (1e-12 if wide else 1e-5), (name, args[0].shape, kw)


def test_lengths_of_all_kinds():
    for n in (1, 2, 5, 32, 33, 37, 64, 97, 100, 210, 256):  # small, products of small factors, primes
        near("fft", complex_of(n))
    for n in (1, 34, 74, 101):
        near("ifft", complex_of(2, n))


def test_lengths_along_two_axes():
    for n in (1, 7, 37, 64, 1000, 1009):
        near("fft", complex_of(2, n), axis=-1)
        near("fft", complex_of(n, 3), axis=0)


def test_axes_lengths_norms():
    x = complex_of(3, 40, 4)
    for norm in (None, "ortho", "forward"):
        near("fft", x, norm=norm, axis=1)
        near("ifft", x, norm=norm, axis=1)
    near("fft", x, 36, 1)
    near("fft", x, 44, 1)
    near("fft", x, n=2, axis=-1)
    near("fftn", x)
    near("ifftn", x, axes=(0, 2))
    near("fftn", x, s=(5, 3), axes=(0, 1), norm="ortho")
    near("fft2", x)
    near("ifft2", x, s=(7, 3))


def test_real_numbers():
    for n in (1, 2, 7, 8, 45):
        x = RNG.normal(size=(2, n))
        near("rfft", x)
        near("rfft", x, 6, norm="ortho")
        near("irfft", complex_of(2, n // 2 + 1), n)
        near("ihfft", x)
        near("hfft", complex_of(2, n // 2 + 1), n, norm="forward")
    near("irfft", complex_of(3, 5))
    near("rfftn", RNG.normal(size=(4, 3, 6)))
    near("irfftn", complex_of(4, 3, 4), s=(4, 3, 6))
    near("rfft2", RNG.normal(size=(4, 6)), norm="forward")
    near("irfft2", complex_of(4, 4))
    near("fft", np.arange(12))


def test_types():
    x = RNG.normal(size=40).astype(np.float32)
    assert anp.fft.fft(x).dtype == np.complex64 and anp.fft.rfft(x).dtype == np.complex64
    assert anp.fft.irfft(anp.fft.rfft(x)).dtype == np.float32
    assert np.allclose(np.asarray(anp.fft.irfft(anp.fft.rfft(x))), x, atol=1e-5)
    assert np.allclose(np.asarray(anp.fft.fft(x)), np.fft.fft(x), atol=1e-4)
    assert anp.fft.fft(np.arange(3)).dtype == np.complex128


def test_frequencies():
    for n in (4, 5):
        for name, x in (("fftfreq", n), ("rfftfreq", n)):
            assert np.allclose(np.asarray(getattr(anp.fft, name)(x, d=0.5)), getattr(np.fft, name)(x, d=0.5))
        near("fftshift", RNG.normal(size=(3, n)))
        near("ifftshift", RNG.normal(size=(3, n)))
        near("fftshift", RNG.normal(size=(3, n)), axes=1)


def test_in_compiled_functions_and_their_derivatives():
    @anfora.jit
    def energy(x):
        y = anp.fft.rfft(x)
        return anp.sum(anp.real(y * anp.conj(y)))

    for n in (12, 37):
        x = RNG.normal(size=n)
        y = np.fft.rfft(x)
        assert np.isclose(energy(x), np.sum(abs(y) ** 2))
        full = np.where(np.arange(n // 2 + 1) % n == 0, 1, 1) * y  # d/dx sum |F x|^2 = 2 Re F^H F x
        rows = np.exp(-2j * np.pi * np.outer(np.arange(n // 2 + 1), np.arange(n)) / n)
        assert np.allclose(np.asarray(anfora.grad(energy)(x)), 2 * np.real(rows.conj().T @ full))
    filtered = anfora.jit(lambda x, h: np.real(np.fft.ifft(np.fft.fft(x) * np.fft.fft(h))))
    x, h = RNG.normal(size=(2, 10))
    circular = [sum(x[j] * h[(i - j) % 10] for j in range(10)) for i in range(10)]
    assert np.allclose(np.asarray(filtered(x, h)), circular)
    batch = RNG.normal(size=(3, 9))
    assert np.allclose(np.asarray(anfora.vmap(anp.fft.fft)(batch)), np.fft.fft(batch))


def test_what_is_refused():
    for call in (lambda: anp.fft.fft(np.ones(4), norm="best"), lambda: anp.fft.fftn(np.ones((2, 2)), axes=(0, 2)),
                 lambda: anp.fft.fftn(np.ones((2, 2)), s=(2,), axes=(0, 1))):
        try:
            call()
        except anfora.AnforaError as problem:
            assert "fft: " in str(problem), problem
        else:
            raise AssertionError("it must be refused")


def test_transforms_of_real_numbers_refuse_others():
    for name in "rfft", "ihfft", "rfft2", "rfftn":
        try:
            getattr(anfora.fft, name)(complex_of(3, 4))
        except anfora.AnforaError as e:
            assert "make_complex" in str(e).lower() or "MakeComplex" in str(e), e
        else:
            raise AssertionError(f"{name} took complex numbers")


def test_lists():
    """Lists of numbers are taken for arrays."""
    x, m = [1.0, 2.0, 4.0], [[3.0, 1.0], [1.0, 2.0]]
    assert np.allclose(np.asarray(anp.fft.fft(x)), np.fft.fft(x)) and np.allclose(np.asarray(anp.fft.rfft([1, 2, 3, 4])), np.fft.rfft([1, 2, 3, 4]))
    assert np.allclose(np.asarray(anfora.jit(lambda: anp.fft.fft([1.0, 2.0, 4.0]))()), np.fft.fft(x))
    assert np.allclose(np.asarray(anp.fft.fftn(m, axes=[0])), np.fft.fftn(m, axes=[0]))
    for f in ("eigvalsh", "svdvals", "pinv", "inv", "det"):
        assert np.allclose(np.asarray(getattr(anp.linalg, f)(m)), getattr(np.linalg, f)(m) if f != "svdvals" else np.linalg.svd(m)[1]), f
    assert np.array_equal(anfora.ops.segment_sum([1.0, 2.0], [1, 1], 2), [0, 3])
    for lower in (True, False):
        factor = anfora.scipy.linalg.cho_factor(np.array(m), lower=lower)
        assert np.allclose(np.asarray(anfora.scipy.linalg.cho_solve((factor[0], lower), [1.0, 2.0])), np.linalg.solve(m, [1, 2]))
