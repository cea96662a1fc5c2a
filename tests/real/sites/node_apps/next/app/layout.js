export const metadata = { title: 'Next.js is up' };

export default function Layout({ children }) {
    return (
        <html lang="en">
            <body>{children}</body>
        </html>
    );
}
