/* Trampolines for x86-64 (trampolines.h).
 *
 * Kept are all registers in which arguments may be (System V ABI, 3.2.3): rdi to r9, al (how many
 * vector registers a variadic function is given), r10 (the static chain), and the vector registers
 * at their full width.
 */
#ifdef __x86_64__

#define TRAMPOLINES 128
/* SSE, AVX, and the three of AVX-512; the processor leaves out what it has not. */
#define COMPONENTS 0xe6
#define HEADER 512
#define FXSAVE_SIZE 512

        .text
        .p2align 4
        .globl trampoline_stubs
        .hidden trampoline_stubs
        .type trampoline_stubs, @object
        .size trampoline_stubs, 16 * TRAMPOLINES
trampoline_stubs:
        .set number, 0
        .rept TRAMPOLINES
        .p2align 4
        .cfi_startproc
        endbr64
        push $number
        .cfi_adjust_cfa_offset 8
        jmp trampoline
        .cfi_endproc
        .set number, number + 1
        .endr
        .p2align 4

        .type trampoline, @function
trampoline:
        .cfi_startproc
        .cfi_def_cfa_offset 16          /* the number */
        push %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_offset %rbp, -24
        mov %rsp, %rbp
        .cfi_def_cfa_register %rbp
        push %rdi
        push %rsi
        push %rdx
        push %rcx
        push %r8
        push %r9
        push %r10
        push %rax
        mov trampoline_state_size(%rip), %r11d
        test %r11d, %r11d
        jz 1f
        sub %r11, %rsp
        and $-64, %rsp
        xor %eax, %eax
        .set word, HEADER
        .rept 8
        mov %rax, word(%rsp)
        .set word, word + 8
        .endr
        xor %edx, %edx
        mov $COMPONENTS, %eax
        xsave64 (%rsp)
        jmp 2f
1:      sub $FXSAVE_SIZE, %rsp
        and $-64, %rsp
        fxsave64 (%rsp)

2:      mov 8(%rbp), %edi
        lea -8(%rbp), %rsi              /* rdi as it was */
        lea 16(%rbp), %rdx              /* where the caller's stack ends */
        lea 16(%rbp), %rcx
        call trampoline_called
        mov %rax, %r11

        cmpl $0, trampoline_state_size(%rip)
        je 3f
        xor %edx, %edx
        mov $COMPONENTS, %eax
        xrstor64 (%rsp)
        jmp 4f
3:      fxrstor64 (%rsp)

4:      lea -64(%rbp), %rsp
        pop %rax
        pop %r10
        pop %r9
        pop %r8
        pop %rcx
        pop %rdx
        pop %rsi
        pop %rdi
        pop %rbp
        .cfi_def_cfa %rsp, 16
        .cfi_restore %rbp
        lea 8(%rsp), %rsp
        .cfi_adjust_cfa_offset -8
        jmp *%r11
        .cfi_endproc
        .size trampoline, . - trampoline

#endif

        .section .note.GNU-stack, "", %progbits
